/* The arithmetic of kernel.c for one kind of processor. It is included once for each kind, with
 *
 *   NAME(f)  what a function is called for this kind
 *   LANES    floats in a vector: 4, 8 or 16
 *   ROWS     a tile of a product has ROWS x COLS vectors, which fit the processor's registers
 *   COLS
 *   LOW      the places that put the first halves of two vectors together, one of each by turns
 *   HIGH     the same for the second halves
 *   READ     the first few floats of a vector, and zeros: no other memory is looked at
 *   WRITE    the same, to write them
 *
 * Vectors are GCC's and Clang's own, so this is plain C for any processor.
 */

typedef float NAME(vector) __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t NAME(mask) __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
#define V NAME(vector)
#define M NAME(mask)

/* Some floats, at most LANES. */
INLINE V NAME(read)(const float *from, int64_t some)
{
    return some == LANES ? *(const V *)from : READ(from, some);
}

INLINE void NAME(write)(float *to, V from, int64_t some)
{
    if (some == LANES) *(V *)to = from;
    else WRITE(to, from, some);
}

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

/* A row of a product to where it belongs: `cols` vectors, `last` floats of the last one. */
INLINE void NAME(store)(const int cols, const V *sum, float *c, int64_t last, const float *bias,
                        const float *outputs)
{
    UNROLL for (int j = 0; j < cols; j++) {
        V v = sum[j];
        if (bias || outputs)
            v = NAME(end)(v, bias ? bias + j * LANES : 0, outputs ? outputs + j * LANES : 0);
        NAME(write)(c + j * LANES, v, j < cols - 1 ? LANES : last);
    }
}

/* ROWS x COLS vectors of a product, in registers: rows and cols are constants where it is called.
 * Of a list `some` of places along the depth those are meant that it names. */
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
    UNROLL for (int i = 0; i < rows; i++)
        NAME(store)(cols, sum[i], c + i * c_row, last, bias, outputs ? outputs + i * c_row : 0);
}

/* One row of a product, of as many vectors as fit the registers: only where bits of `there` are. */
INLINE void NAME(line)(const int cols, int64_t words, const uint64_t *there, const float *a,
                       const float *b, int64_t b_row, float *c, int64_t last, const float *bias,
                       const float *outputs)
{
    V sum[NARROW];
    UNROLL for (int j = 0; j < cols; j++) sum[j] = (V){0};
    for (int64_t word = 0; word < words; word++, a += 64, b += 64 * b_row)
        for (uint64_t bits = there[word]; bits; bits &= bits - 1) {
            int64_t k = __builtin_ctzll(bits);
            UNROLL for (int j = 0; j < cols; j++)
                sum[j] += a[k] * *(const V *)(b + k * b_row + j * LANES);
        }
    NAME(store)(cols, sum, c, last, bias, outputs);
}

/* c = a b row by row, without the zeros of a: `words` of bits for each row say where it has none.
 * Of few columns, so that b stays in the cache. */
static void NAME(lines)(int64_t height, int64_t width, int64_t words, const uint64_t *there,
                        const float *a, int64_t down, const float *b, int64_t b_row, float *c,
                        int64_t c_row, const float *bias, const float *outputs)
{
    int64_t cols = (width + LANES - 1) / LANES, last = width - (cols - 1) * LANES;
    switch (cols) {
#define LINE_(n) \
    case n: \
        for (int64_t i = 0; i < height; i++) \
            NAME(line)(n, words, there + i * words, a + i * down, b, b_row, c + i * c_row, last, \
                       bias, outputs ? outputs + i * c_row : 0); \
        break;
        LINE_(1) LINE_(2) LINE_(3) LINE_(4) LINE_(5) LINE_(6)
#if NARROW == 12
        LINE_(7) LINE_(8) LINE_(9) LINE_(10) LINE_(11) LINE_(12)
#endif
#undef LINE_
    }
}

/* Where rows of a are not 0, a bit for each number; tell whether that is seldom. Rows can be read
 * to a multiple of LANES. */
static int NAME(bits)(int64_t height, int64_t depth, const float *a, int64_t down, uint64_t *found)
{
    int64_t all = 0;
    for (int64_t i = 0; i < height; i++, a += down)
        for (int64_t k = 0; k < depth; k += 64, found++) {
            *found = 0;
            for (int64_t q = 0; q < 64 && k + q < depth; q += LANES)
                *found |= BITS(*(const V *)(a + k + q)) << q;
            if (depth - k < 64) *found &= ((uint64_t)1 << (depth - k)) - 1;
            all += __builtin_popcountll(*found);
        }
    return 4 * all < 3 * height * depth;
}

/* c = a b without the zeros of a. Do nothing and say so if there are not enough of them, or too
 * many columns. */
static int NAME(narrow)(int64_t height, int64_t width, int64_t depth, const float *a, int64_t down,
                        const float *b, int64_t b_row, float *c, int64_t c_row, const float *bias,
                        const float *outputs, uint64_t *there)
{
    int64_t words = (depth + 63) / 64;
    if (width > NARROW * LANES || depth > MOST_NARROW) return 0;
    for (int64_t some = height < 8 ? height : 8;; some = height) { /* the first ones tell, mostly */
        if (!NAME(bits)(some, depth, a, down, there)) return 0;
        if (some == height) break;
    }
    NAME(lines)(height, width, words, there, a, down, b, b_row, c, c_row, bias, outputs);
    return 1;
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
 * With `room` to note where they are, zeros of a are passed over where that pays. Sums are the same
 * to the last bit. */
INLINE void NAME(any_product)(int64_t height, int64_t width, int64_t depth, const float *a,
                              int64_t down, int64_t along, const float *b, int64_t b_row, float *c,
                              int64_t c_row, const float *bias, const float *outputs,
                              int32_t *room)
{
    if (room && NAME(narrow)(height, width, depth, a, down, b, b_row, c, c_row, bias, outputs,
                             (uint64_t *)room))
        return;
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

/* The two that there are, each compiled by itself: a as it lies, and a transposed. */
static void NAME(product)(int64_t height, int64_t width, int64_t depth, const float *a,
                          int64_t down, const float *b, int64_t b_row, float *c, int64_t c_row,
                          const float *bias, const float *outputs, int32_t *room)
{
    NAME(any_product)(height, width, depth, a, down, 1, b, b_row, c, c_row, bias, outputs, room);
}

static void NAME(turned_product)(int64_t height, int64_t width, int64_t depth, const float *a,
                                 int64_t along, const float *b, int64_t b_row, float *c,
                                 int64_t c_row)
{
    NAME(any_product)(height, width, depth, a, 1, along, b, b_row, c, c_row, 0, 0, 0);
}

/* A model's inputs into the room, with S behind them: of people in order, or of these rows. */
static void NAME(lay_out)(const struct plan *plan, const float *x, int64_t x_person,
                          const int64_t *s, const int64_t *rows, float *to)
{
    int64_t features = plan->features, width = plan->widths[0], row = padded(width);
    int64_t whole = features - features % LANES;
    for (int64_t i = 0; i < plan->n; i++, to += row) {
        int64_t who = rows ? rows[i] : i;
        const float *from = x + who * x_person;
        for (int64_t j = 0; j < whole; j += LANES) *(V *)(to + j) = *(const V *)(from + j);
        if (whole < row) *(V *)(to + whole) = READ(from + whole, features - whole);
        for (int64_t j = whole + LANES; j < row; j += LANES) *(V *)(to + j) = (V){0};
        for (int64_t j = features; j < width; j++)
            to[j] = plan->groups == 2 ? (float)s[who] : (float)(s[who] == j - features);
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
 * they are many. What is no number is something. Of narrow layers bits tell who says something to
 * whom, and nothing is left out. */
static void NAME(awake)(const struct shape *shape, int64_t layer, float *outputs)
{
    struct units *units = units_of(shape, layer, outputs);
    int64_t n = shape->n, width = shape->widths[layer], row = padded(width), found = 0;
    if (shape->one) {
        units->all = 1;
        units->count = width;
        units->seldom = NAME(bits)(n, width, outputs, row, bits_of(shape, layer, outputs));
        return;
    }
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
    if (in->all && every && padded(fan_in) == fan_in && in_line(w)) return w;
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
            if (layer) NAME(awake)(shape, layer, in);
            return;
        }
        if (layer) NAME(awake)(shape, layer, in);
        int64_t in_row = padded(units->count);
        const float *rows = w;
        if (!units->all) rows = NAME(between)(w, fan_in, fan_out, units, 0, work);
        NAME(transpose)(fan_out, units->count, rows, units->all ? fan_in : in_row, turned, out_row);
        if (layer < shape->layers - 1) {
            float *last = turned + units->count * out_row;
            fill(last, out_row, bias, fan_out);
            if (layer && shape->one && units->seldom)
                NAME(lines)(shape->n, out_row, 1, bits_of(shape, layer, in), in, in_row, turned,
                            out_row, hidden, out_row, last, 0);
            else
                NAME(product)(shape->n, out_row, units->count, in, in_row, turned, out_row, hidden,
                              out_row, last, 0, layer && shape->one ? 0 : room);
        } else {
            NAME(product)(shape->n, fan_out, units->count, in, in_row, turned, out_row, logits,
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

/* The slopes of weights: c = slope' in, with slopes that are turned first where zeros pay. */
INLINE void NAME(weights)(int64_t fan_out, int64_t fan_in, int64_t n, const float *slope,
                          int64_t row, const float *in, int64_t in_row, float *c, int64_t c_row,
                          float *turned, int32_t *room)
{
    int64_t people = padded(n);
    if (turned && fan_in <= NARROW * LANES && n <= MOST_NARROW) {
        NAME(transpose)(n, fan_out, slope, row, turned, people);
        if (NAME(narrow)(fan_out, fan_in, n, turned, people, in, in_row, c, c_row, 0, 0,
                         (uint64_t *)room))
            return;
    }
    NAME(turned_product)(fan_out, fan_in, n, slope, row, in, in_row, c, c_row);
}

#include "bits.h"

/* One model's gradient, from the slope at its logits and what `forth` left. */
static void NAME(back)(const struct shape *shape, const float *w, const float *inputs,
                       float *hidden, float *work, const float *slope, float *grad)
{
    if (shape->one) {
        NAME(back_of_one)(shape, w, inputs, hidden, work, slope, grad);
        return;
    }
    struct units outputs = {.count = shape->widths[shape->layers], .all = 1}, *out = &outputs;
    struct units first = {.count = shape->widths[0], .all = 1};
    int64_t row = outputs.count; /* of the slope; the logits' are not padded */
    int64_t n = shape->n, size = shape->people * shape->widest;
    float *slopes = work + 2 * shape->weights, *turned = slopes + 2 * size;
    int32_t *room = (int32_t *)(turned + size);
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
        int direct = from->all && out->all;
        float *found = direct ? grad : work, *sums = found + out->count * (direct ? fan_in : in_row);
        NAME(weights)(out->count, from->count, n, slope, row, in, in_row, found,
                      direct ? fan_in : in_row, layer < shape->layers - 1 ? turned : 0, room);
        NAME(add_up)(n, out->count, slope, row, sums);
        if (!direct) scatter(fan_out, out, fan_in, from, found, sums, grad);
        if (layer) {
            float *before = slopes + (layer % 2) * size;
            const float *rows = NAME(between)(w, fan_in, fan_out, from, out, work);
            NAME(product)(n, in_row, out->count, slope, row, rows, in_row, before, in_row, 0, in,
                          layer < shape->layers - 1 ? room : 0);
            slope = before;
            row = in_row;
            out = (struct units *)from;
        }
    }
}

/* What a step needs to know, in single precision. */
struct NAME(pace) {
    float lr, ridge, gamma, beta1, beta2, rest, eps, pace, spread;
};

/* Step down by a gradient, some numbers from `i` on: plainly, or by Adam (Kingma and Ba 2015) as
 * PyTorch has it. */
INLINE void NAME(move)(const int adam, const int tied, struct NAME(pace) p, int64_t i, int64_t some,
                       float *w, const float *grad, float *m, float *v, const float *centre)
{
    V at = NAME(read)(w + i, some), slope = NAME(read)(grad + i, some);
    if (tied) slope += p.gamma * (at - NAME(read)(centre + i, some));
    if (p.ridge != 0) slope += p.ridge * at;
    if (adam) {
        V mean = NAME(read)(m + i, some), square = NAME(read)(v + i, some);
        mean += p.beta1 * (slope - mean);
        square = p.beta2 * square + p.rest * slope * slope;
        NAME(write)(m + i, mean, some);
        NAME(write)(v + i, square, some);
        at -= p.pace * mean / (SQRT(square) / p.spread + p.eps);
    } else {
        at -= p.lr * slope;
    }
    NAME(write)(w + i, at, some);
}

static void NAME(step)(const struct descent *d, int64_t made, int64_t size, float *w,
                       const float *grad, float *m, float *v, const float *centre)
{
    struct NAME(pace) p = {
        .lr = (float)d->lr, .ridge = (float)d->ridge, .gamma = (float)d->gamma,
        .beta1 = (float)(1 - d->beta1), .beta2 = (float)d->beta2, .rest = (float)(1 - d->beta2),
        .eps = (float)d->eps,
    };
    if (d->adam) {
        p.pace = (float)(d->lr / (1 - pow(d->beta1, (double)(made + 1))));
        p.spread = (float)sqrt(1 - pow(d->beta2, (double)(made + 1)));
    }
    int64_t whole = size - size % LANES;
#define MOVE(adam, tied) \
    for (int64_t i = 0; i < whole; i += LANES) \
        NAME(move)(adam, tied, p, i, LANES, w, grad, m, v, centre); \
    if (whole < size) NAME(move)(adam, tied, p, whole, size - whole, w, grad, m, v, centre);
    if (d->adam && p.gamma != 0) { MOVE(1, 1) }
    else if (d->adam) { MOVE(1, 0) }
    else if (p.gamma != 0) { MOVE(0, 1) }
    else { MOVE(0, 0) }
#undef MOVE
}

#undef V
#undef M
#undef SQRT
#undef READ
#undef WRITE
#undef MULTIPLY_ADD
#undef BITS
#undef NARROW
#undef NAME
#undef LANES
#undef ROWS
#undef COLS
#undef LOW
#undef HIGH
