/* The arithmetic of kernel.c for one kind of processor. It is included once for each kind, with
 *
 *   NAME(f)  what a function is called for this kind
 *   LANES    floats in a vector: 4, 8 or 16
 *   ROWS     a tile of a product has ROWS x COLS vectors, which fit the processor's registers
 *   COLS
 *   LOW      the places that put the first halves of two vectors together, one of each by turns
 *   HIGH     the same for the second halves
 *
 * Vectors are GCC's and Clang's own, so this is plain C for any processor.
 */

typedef float NAME(vector) __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t NAME(mask) __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
#define V NAME(vector)
#define M NAME(mask)

/* What becomes of a product before it is stored. ReLU is PyTorch's: what is no number stays so. */
INLINE V NAME(end)(V z, const float *bias, const float *output)
{
    if (bias) { /* a hidden layer's ReLU */
        z += *(const V *)bias;
        z = (V)((M)z & ~(M)(z <= 0));
    }
    if (output) /* its slope: 0 where its output is not positive */
        z = (V)((M)z & ~(M)(*(const V *)output <= 0));
    return z;
}

/* ROWS x COLS vectors of a product, in registers: rows and cols are constants where it is called.
 * Of a list `some` of places along the depth those are meant that it names. `last` floats of the
 * last vector are stored. */
INLINE void NAME(tile)(const int rows, const int cols, int64_t depth, const int32_t *some,
                       const float *a, int64_t down, int64_t along, const float *b, int64_t b_row,
                       float *c, int64_t c_row, int64_t last, const float *bias,
                       const float *outputs)
{
    V sum[ROWS][COLS];
    UNROLL for (int i = 0; i < rows; i++)
        UNROLL for (int j = 0; j < cols; j++) sum[i][j] = (V){0};
    if (some)
        for (int64_t at = 1; at <= some[0]; at++)
            UNROLL for (int i = 0; i < rows; i++)
                UNROLL for (int j = 0; j < cols; j++)
                    sum[i][j] += a[i * down + some[at]] *
                                 *(const V *)(b + some[at] * b_row + j * LANES);
    else
        for (int64_t k = 0; k < depth; k++, a += along, b += b_row)
            UNROLL for (int i = 0; i < rows; i++)
                UNROLL for (int j = 0; j < cols; j++)
                    sum[i][j] += a[i * down] * *(const V *)(b + j * LANES);
    if (bias || outputs)
        UNROLL for (int i = 0; i < rows; i++)
            UNROLL for (int j = 0; j < cols; j++)
                sum[i][j] = NAME(end)(sum[i][j], bias ? bias + j * LANES : 0,
                                      outputs ? outputs + i * c_row + j * LANES : 0);
    UNROLL for (int i = 0; i < rows; i++, c += c_row) {
        UNROLL for (int j = 0; j < cols - 1; j++) *(V *)(c + j * LANES) = sum[i][j];
        float *end = c + (cols - 1) * LANES;
        V v = sum[i][cols - 1];
        if (last == LANES)
            *(V *)end = v;
        else
            for (int64_t j = 0; j < last; j++) end[j] = v[j];
    }
}

/* For ROWS rows of a at a time, where any of them is not 0: how many places, and which. Tell
 * whether they are few. Rows of a can be read to a multiple of LANES. */
static int NAME(places)(int64_t height, int64_t depth, const float *a, int64_t down, int32_t *found)
{
    int64_t all = 0;
    for (int64_t i = 0; i < height; i += ROWS, found += depth + 1) {
        int64_t rows = height - i < ROWS ? height - i : ROWS, count = 0;
        for (int64_t k = 0; k < depth; k += LANES) {
            M any = {0};
            for (int64_t q = 0; q < rows; q++)
                any |= (M)(*(const V *)(a + (i + q) * down + k) != 0);
            for (int64_t q = 0; q < LANES && k + q < depth; q++) {
                found[1 + count] = (int32_t)(k + q); /* written over, if it is none */
                count -= any[q];
            }
        }
        found[0] = (int32_t)count;
        all += count * rows;
    }
    return 8 * all < 7 * height * depth;
}

/* c = a b, where a[i][k] is at a + i * down + k * along: so a may be transposed. Rows of b can be
 * read to a multiple of LANES, and so can bias and outputs (as c), see `end`, if there are any.
 * With room for `places` zeros of a are passed over, where they pay. */
static void NAME(product)(int64_t height, int64_t width, int64_t depth, const float *a,
                          int64_t down, int64_t along, const float *b, int64_t b_row, float *c,
                          int64_t c_row, const float *bias, const float *outputs, int32_t *room)
{
    int some = room && width >= WIDE && NAME(places)(height, depth, a, down, room);
    for (int64_t j = 0; j < width; j += COLS * LANES) {
        int64_t wide = width - j < COLS * LANES ? width - j : COLS * LANES;
        int64_t cols = (wide + LANES - 1) / LANES, last = wide - (cols - 1) * LANES;
        for (int64_t i = 0; i < height; i += ROWS) {
            int64_t rows = height - i < ROWS ? height - i : ROWS;
            switch (8 * rows + cols) {
#define TILE(r, c_) \
    case 8 * r + c_: \
        NAME(tile)(r, c_, depth, some ? room + i / ROWS * (depth + 1) : 0, a + i * down, down, \
                   along, b + j, b_row, c + i * c_row + j, c_row, last, bias ? bias + j : 0, \
                   outputs ? outputs + i * c_row + j : 0); \
        break;
#if COLS == 4
#define TILES(r) TILE(r, 1) TILE(r, 2) TILE(r, 3) TILE(r, 4)
#else
#define TILES(r) TILE(r, 1) TILE(r, 2)
#endif
                TILES(1) TILES(2) TILES(3) TILES(4) TILES(5) TILES(6)
#undef TILE
#undef TILES
            }
        }
    }
}

/* Transpose LANES x LANES floats: each turn moves the index's first bit to its end. */
INLINE void NAME(turn)(V r[LANES])
{
    V t[LANES];
    UNROLL for (int turns = 1; turns < LANES; turns *= 2) {
        UNROLL for (int i = 0; i < LANES / 2; i++) {
            t[2 * i] = SHUFFLE(M, r[i], r[i + LANES / 2], LOW);
            t[2 * i + 1] = SHUFFLE(M, r[i], r[i + LANES / 2], HIGH);
        }
        UNROLL for (int i = 0; i < LANES; i++) r[i] = t[i];
    }
}

/* to[k][i] = from[i][k]; the rows of `to` are filled up with zeros. */
static void NAME(transpose)(int64_t height, int64_t width, const float *from, int64_t row,
                            float *to, int64_t to_row)
{
    int64_t whole_height = height - height % LANES, whole_width = width - width % LANES;
    for (int64_t i = 0; i < whole_height; i += LANES)
        for (int64_t k = 0; k < whole_width; k += LANES) {
            V r[LANES];
            UNROLL for (int q = 0; q < LANES; q++) r[q] = *(const V *)(from + (i + q) * row + k);
            NAME(turn)(r);
            UNROLL for (int q = 0; q < LANES; q++) *(V *)(to + (k + q) * to_row + i) = r[q];
        }
    for (int64_t k = 0; k < width; k++) {
        for (int64_t i = k < whole_width ? whole_height : 0; i < height; i++)
            to[k * to_row + i] = from[i * row + k];
        for (int64_t i = height; i < to_row; i++) to[k * to_row + i] = 0;
    }
}

/* out[i][o] = h[i] w[o] + bias[o] for a few o: sums along the rows, LANES people at a time. */
static void NAME(few)(int64_t n, int64_t outputs, int64_t depth, const float *h, int64_t row,
                      const float *w, int64_t w_row, const float *bias, float *out)
{
    for (int64_t i = 0; i < n; i += LANES)
        for (int64_t o = 0; o < outputs; o++) {
            V r[LANES];
            UNROLL for (int q = 0; q < LANES; q++) r[q] = (V){0};
            for (int64_t k = 0; k < depth; k += LANES)
                UNROLL for (int q = 0; q < LANES; q++)
                    r[q] += *(const V *)(h + (i + q) * row + k) *
                            *(const V *)(w + o * w_row + k);
            NAME(turn)(r);
            UNROLL for (int half = LANES / 2; half; half /= 2)
                UNROLL for (int q = 0; q < half; q++) r[q] += r[q + half];
            V sum = r[0] + bias[o];
            for (int64_t q = 0; q < LANES && i + q < n; q++) out[(i + q) * outputs + o] = sum[q];
        }
}

/* The sums of the columns. */
static void NAME(add_up)(int64_t n, int64_t width, const float *slope, int64_t row, float *sums)
{
    int64_t j = 0;
    for (; j + LANES <= width; j += LANES) {
        V sum = (V){0};
        for (int64_t i = 0; i < n; i++) sum += *(const V *)(slope + i * row + j);
        *(V *)(sums + j) = sum;
    }
    for (; j < width; j++) {
        float sum = 0;
        for (int64_t i = 0; i < n; i++) sum += slope[i * row + j];
        sums[j] = sum;
    }
}

/* Find the units that say something to somebody, and leave out the others' outputs, all zeros, if
 * they are many. What is no number is something. */
static void NAME(awake)(int64_t n, int64_t width, float *outputs, struct units *units)
{
    int64_t row = padded(width), found = 0;
    for (int64_t j = 0; j < row; j += LANES) {
        M any = {0};
        for (int64_t i = 0; i < n; i++) any |= (M)(*(const V *)(outputs + i * row + j) != 0);
        for (int64_t q = 0; q < LANES && j + q < width; q++)
            if (any[q]) units->number[found++] = (int32_t)(j + q);
    }
    units->all = 8 * found > 7 * width;
    units->count = units->all ? width : found;
    if (!units->all) gather(n, 0, found, units->number, outputs, row, outputs);
}

/* A layer's weights from the units that are awake to some of its outputs (0: to all), in rows that
 * can be read to their padded ends: these, or a copy in `room`. */
INLINE const float *NAME(between)(const float *w, int64_t fan_in, int64_t fan_out,
                                  const struct units *in, const struct units *out, float *room)
{
    int every = !out || out->all;
    if (in->all && every && padded(fan_in) == fan_in) return w;
    gather(every ? fan_out : out->count, every ? 0 : out->number, in->count,
           in->all ? 0 : in->number, w, fan_in, room);
    return room;
}

/* All layers of one model, from its inputs to the logits; `hidden` keeps what is between. */
static void NAME(forth)(const struct shape *shape, const float *w, float *in, float *hidden,
                        float *work, float *logits)
{
    struct units inputs = {.count = shape->widths[0], .all = 1}, *units = &inputs;
    float *turned = work + shape->weights;
    int32_t *room = (int32_t *)(turned + shape->weights);
    for (int64_t layer = 0; layer < shape->layers; layer++) {
        int64_t fan_in = shape->widths[layer], fan_out = shape->widths[layer + 1];
        int64_t out_row = padded(fan_out);
        const float *bias = w + fan_in * fan_out;
        if (layer == shape->layers - 1 && fan_out <= FEW) { /* sums go by lanes: nobody is left out */
            int64_t row = padded(fan_in);
            const float *rows = rows_of(w, fan_out, fan_in, work);
            NAME(few)(shape->n, fan_out, row, in, row, rows, row, bias, logits);
            if (layer) NAME(awake)(shape->n, fan_in, in, units);
            return;
        }
        if (layer) NAME(awake)(shape->n, fan_in, in, units);
        int64_t in_row = padded(units->count);
        const float *rows = w;
        if (!units->all) rows = NAME(between)(w, fan_in, fan_out, units, 0, work);
        NAME(transpose)(fan_out, units->count, rows, units->all ? fan_in : in_row, turned, out_row);
        if (layer < shape->layers - 1) {
            float *last = turned + units->count * out_row;
            fill(last, out_row, bias, fan_out);
            NAME(product)(shape->n, out_row, units->count, in, in_row, 1, turned, out_row, hidden,
                          out_row, last, 0, room);
        } else {
            NAME(product)(shape->n, fan_out, units->count, in, in_row, 1, turned, out_row, logits,
                          fan_out, 0, 0, room);
            for (int64_t i = 0; i < shape->n; i++)
                for (int64_t o = 0; o < fan_out; o++) logits[i * fan_out + o] += bias[o];
        }
        in = hidden;
        units = units_of(shape, layer + 1, hidden);
        hidden += block(shape, layer + 1);
        w += (fan_in + 1) * fan_out;
    }
}

/* One model's gradient, from the slope at its logits and what `forth` left. */
static void NAME(back)(const struct shape *shape, const float *w, const float *inputs,
                       float *hidden, float *work, const float *slope, float *grad)
{
    struct units outputs = {.count = shape->widths[shape->layers], .all = 1}, *out = &outputs;
    struct units first = {.count = shape->widths[0], .all = 1};
    int64_t row = outputs.count; /* of the slope; the logits' are not padded */
    int64_t n = shape->n, size = shape->people * shape->widest;
    float *slopes = work + 2 * shape->weights;
    int32_t *room = (int32_t *)(slopes + 2 * size);
    for (int64_t layer = 0; layer < shape->layers; layer++) {
        int64_t numbers = (shape->widths[layer] + 1) * shape->widths[layer + 1];
        w += numbers;
        grad += numbers;
        if (layer) hidden += block(shape, layer);
    }
    for (int64_t layer = shape->layers - 1; layer >= 0; layer--) {
        int64_t fan_in = shape->widths[layer], fan_out = shape->widths[layer + 1];
        int64_t numbers = (fan_in + 1) * fan_out;
        w -= numbers;
        grad -= numbers;
        const float *in = layer ? (hidden -= block(shape, layer)) : inputs;
        const struct units *from = layer ? units_of(shape, layer, hidden) : &first;
        int64_t in_row = padded(from->count);
        if (from->all && out->all) {
            NAME(product)(fan_out, fan_in, n, slope, 1, row, in, in_row, grad, fan_in, 0, 0, 0);
            NAME(add_up)(n, fan_out, slope, row, grad + fan_in * fan_out);
        } else {
            float *sums = work + out->count * in_row;
            NAME(product)(out->count, from->count, n, slope, 1, row, in, in_row, work, in_row, 0, 0, 0);
            NAME(add_up)(n, out->count, slope, row, sums);
            scatter(fan_out, out, fan_in, from, work, sums, grad);
        }
        if (layer) {
            float *before = slopes + (layer % 2) * size;
            const float *rows = NAME(between)(w, fan_in, fan_out, from, out, work);
            NAME(product)(n, in_row, out->count, slope, row, 1, rows, in_row, before, in_row, 0, in,
                          layer < shape->layers - 1 ? room : 0);
            slope = before;
            row = in_row;
            out = (struct units *)from;
        }
    }
}

#undef V
#undef M
#undef NAME
#undef LANES
#undef ROWS
#undef COLS
#undef LOW
#undef HIGH
