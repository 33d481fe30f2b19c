/* The loops of kernel.c that take the time, for one kind of processor: included once for each, with
 * NAME(f), what a function is called for this kind, and ROWS and PARTS, how many rows and vectors of
 * a product fit its registers. */

/* A tile of c = a b: `rows` rows and `parts` vectors, from `panel`, where the columns of b lie side by
 * side. Where a is `turned`, it is read from its transpose. The additions of an element have one order,
 * whatever the tile. */
INLINE void NAME(tile)(const int rows, const int parts, const int turned, int64_t depth,
                       const float *a, int64_t down, const float *panel, float *c, int64_t c_row,
                       int64_t wide)
{
    vector sum[ROWS][PARTS];
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int p = 0; p < parts; p++) sum[i][p] = (vector){0};
    for (int64_t k = 0; k < depth; k++, panel += parts * LANES) {
        vector b[PARTS];
#pragma GCC unroll 2
        for (int p = 0; p < parts; p++) b[p] = *(const vector *)(panel + p * LANES);
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++) {
            float one = turned ? a[k * down + i] : a[i * down + k];
#pragma GCC unroll 2
            for (int p = 0; p < parts; p++) sum[i][p] += one * b[p];
        }
    }
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int p = 0; p < parts; p++) {
            int64_t left = wide - p * LANES;
            float *to = c + i * c_row + p * LANES;
            if (left >= LANES) *(vector *)to = sum[i][p];
            else memcpy(to, &sum[i][p], sizeof(float) * left);
        }
}

/* All tiles of some columns: as high as they can be, then of 4 rows, then of 1. */
INLINE void NAME(column)(const int parts, const int turned, int64_t height, int64_t depth,
                         const float *a, int64_t down, const float *panel, float *c, int64_t c_row,
                         int64_t wide)
{
    int64_t i = 0, step = turned ? 1 : down;
    for (; i + ROWS <= height; i += ROWS)
        NAME(tile)(ROWS, parts, turned, depth, a + i * step, down, panel, c + i * c_row, c_row, wide);
    for (; i + 4 <= height; i += 4)
        NAME(tile)(4, parts, turned, depth, a + i * step, down, panel, c + i * c_row, c_row, wide);
    for (; i < height; i++)
        NAME(tile)(1, parts, turned, depth, a + i * step, down, panel, c + i * c_row, c_row, wide);
}

/* Lay `wide` columns of b, from the j-th on, side by side in rows of `lanes` floats. */
INLINE void NAME(pack)(const struct factor *b, int64_t j, int64_t wide, int64_t depth, int64_t lanes,
                       float *panel)
{
    if (wide < lanes) memset(panel, 0, sizeof(float) * lanes * depth);
    for (int64_t q = 0; b->turned && q < wide; q++) {
        const float *from = b->values + (j + q) * b->row;
        for (int64_t k = 0; k < depth; k++) panel[k * lanes + q] = from[b->units[k]];
    }
    for (int64_t k = 0; !b->turned && k < depth; k++) {
        const float *from = b->values + (b->units ? b->units[k] : k) * b->row;
        float *to = panel + k * lanes;
        if (b->columns)
            for (int64_t q = 0; q < wide; q++) to[q] = from[b->columns[j + q]];
        else
            memcpy(to, from + j, sizeof(float) * wide);
    }
}

/* c = a b; of `a` its transpose may be given, with `down` floats between that one's rows. */
static void NAME(product)(int64_t height, int64_t width, int64_t depth, const float *a, int64_t down,
                          int turned, const struct factor *b, float *panel, float *c,
                          int64_t c_row)
{
    for (int64_t j = 0; j < width;) {
        int64_t left = width - j, parts = left > (PARTS - 1) * LANES ? PARTS : 1;
        int64_t wide = left < parts * LANES ? left : parts * LANES;
        NAME(pack)(b, j, wide, depth, parts * LANES, panel);
        if (parts == PARTS && turned)
            NAME(column)(PARTS, 1, height, depth, a, down, panel, c + j, c_row, wide);
        else if (parts == PARTS)
            NAME(column)(PARTS, 0, height, depth, a, down, panel, c + j, c_row, wide);
        else if (turned)
            NAME(column)(1, 1, height, depth, a, down, panel, c + j, c_row, wide);
        else
            NAME(column)(1, 0, height, depth, a, down, panel, c + j, c_row, wide);
        j += wide;
    }
}

/* Add up the rows of `from`. */
static void NAME(add_up)(int64_t n, int64_t width, const float *from, int64_t row, float *total)
{
    memset(total, 0, sizeof(float) * width);
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < width; k++) total[k] += from[i * row + k];
}

/* The slope before ReLU: 0 where its output was. */
static void NAME(mask)(int64_t n, int64_t width, const float *outputs, int64_t row, float *slope)
{
    for (int64_t i = 0; i < n; i++, outputs += row, slope += row)
        for (int64_t j = 0; j < width; j++) slope[j] = outputs[j] <= 0 ? 0 : slope[j];
}

/* Add the bias; what is not positive becomes 0, and what is not a number stays so. Then keep the
 * columns of units that are active on some row. */
static void NAME(activate)(int64_t n, int64_t width, const float *bias, float *h, int32_t *units,
                           int32_t *count)
{
    for (int64_t j = 0; j < width; j++) units[j] = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < width; j++) {
            float z = h[i * width + j] + bias[j];
            z = z <= 0 ? 0 : z;
            units[j] |= z != 0;
            h[i * width + j] = z;
        }
    int32_t found = 0;
    for (int64_t j = 0; j < width; j++)
        if (units[j]) units[found++] = (int32_t)j;
    *count = found;
    if (found == width) return;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < found; j++) h[i * width + j] = h[i * width + units[j]];
}
