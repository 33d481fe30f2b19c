/* The loops of kernel.c that take the time, for one kind of processor: included once for each, with
 * NAME(f), what a function is called for this kind. */

INLINE void NAME(tile)(const int rows, int64_t depth, const float *a, int64_t down,
                       const float *panel, float *c, int64_t c_row, int64_t wide)
{
    vector sum[ROWS];
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++) sum[i] = (vector){0};
    for (int64_t k = 0; k < depth; k++, panel += LANES) {
        vector b = *(const vector *)panel;
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++) sum[i] += a[i * down + k] * b;
    }
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
        if (wide == LANES) *(vector *)(c + i * c_row) = sum[i];
        else memcpy(c + i * c_row, &sum[i], sizeof(float) * wide);
}

/* c = a b, for LANES columns of b at a time, which lie side by side in `panel`. */
static void NAME(product)(int64_t height, int64_t width, int64_t depth, const float *a,
                          int64_t down, const struct factor *b, float *panel, float *c,
                          int64_t c_row)
{
    for (int64_t j = 0; j < width; j += LANES) {
        int64_t wide = width - j < LANES ? width - j : LANES;
        if (wide < LANES) memset(panel, 0, sizeof(float) * LANES * depth);
        for (int64_t q = 0; b->turned && q < wide; q++) {
            const float *from = b->values + (j + q) * b->row;
            for (int64_t k = 0; k < depth; k++) panel[k * LANES + q] = from[b->units[k]];
        }
        for (int64_t k = 0; !b->turned && k < depth; k++) {
            const float *from = b->values + (b->units ? b->units[k] : k) * b->row;
            float *to = panel + k * LANES;
            if (b->columns)
                for (int64_t q = 0; q < wide; q++) to[q] = from[b->columns[j + q]];
            else
                memcpy(to, from + j, sizeof(float) * wide);
        }
        for (int64_t i = 0; i < height; i += ROWS) {
            const float *rows = a + i * down;
            float *to = c + i * c_row + j;
            switch (height - i < ROWS ? height - i : ROWS) {
            case 1: NAME(tile)(1, depth, rows, down, panel, to, c_row, wide); break;
            case 2: NAME(tile)(2, depth, rows, down, panel, to, c_row, wide); break;
            case 3: NAME(tile)(3, depth, rows, down, panel, to, c_row, wide); break;
            case 4: NAME(tile)(4, depth, rows, down, panel, to, c_row, wide); break;
            case 5: NAME(tile)(5, depth, rows, down, panel, to, c_row, wide); break;
            default: NAME(tile)(6, depth, rows, down, panel, to, c_row, wide);
            }
        }
    }
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
