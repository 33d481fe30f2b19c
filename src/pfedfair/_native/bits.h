/* Products with matrices of zeros and ones, and the pass back from one output, which needs them.
 * Included by kernel.h, see there.
 *
 * A hidden layer of up to 64 units has a word of bits for each person: the units that say
 * something. With one output the slope at the last hidden layer is g_i v_j where unit j says
 * something to person i, and else 0: but for g and v a matrix of bits, and products with it are
 * sums of rows. These are taken from tables of all sums of four rows each ("four Russians":
 * Arlazarov, Dinic, Kronrod and Faradzhev 1970), so one addition does four rows.
 */

/* All sums of four rows, each times its factor: the place in the table is a bit for each row. Rows
 * from `count` on are not there, and nobody asks for their sums. */
INLINE void NAME(sums)(V *table, int64_t count, const float *factor, const float *rows, int64_t row)
{
    table[0] = (V){0};
    UNROLL for (int k = 0; k < 4; k++) {
        V one = *(const V *)(rows + (k < count ? k : 0) * row);
        float times = k < count ? factor[k] : 0;
        UNROLL for (int q = 0; q < 1 << k; q++) /* rounded once: else compilers may choose */
            table[(1 << k) + q] = MULTIPLY_ADD(one, times + (V){0}, table[q]);
    }
}

/* The tables of `n` rows, one for every four. */
INLINE void NAME(tables)(V *table, int64_t n, const float *factor, const float *rows, int64_t row)
{
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) NAME(sums)(table + 4 * i, 4, factor + i, rows + i * row, row);
    if (i < n) NAME(sums)(table + 4 * i, n - i, factor + i, rows + i * row, row);
}

/* Add the sums that a word of bits says, of up to 16 tables: to four sums side by side, as one
 * would wait for itself. Tables of zeros behind them change nothing. */
INLINE void NAME(pick)(int64_t tables, const V *table, uint64_t bits, V sum[4])
{
    const int size = sizeof(V) == 64 ? 6 : 5; /* bits of an address within a sum */
    bits = bits << size | bits >> (64 - size);
#define ADD(q) \
    sum[q] += *(const V *)((const char *)(table + 16 * q) + (bits & 15 << size)); \
    bits = bits >> 4 | bits << 60;
    for (; tables >= 4; tables -= 4, table += 64) {
        ADD(0) ADD(1) ADD(2) ADD(3)
    }
    if (tables > 0) { ADD(0) }
    if (tables > 1) { ADD(1) }
    if (tables > 2) { ADD(2) }
#undef ADD
}

/* The same for any number of tables. */
INLINE V NAME(picked)(int64_t tables, const V *table, const uint64_t *bits)
{
    V sum[4] = {{0}};
    for (; tables >= 16; tables -= 16, table += 256) NAME(pick)(16, table, *bits++, sum);
    if (tables) NAME(pick)(tables, table, *bits, sum);
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* The slopes of weights: grad[j] = v[j] (the sum of g[i] in[i] where bit i of `to[j]` is set), of
 * `n` people. What people before these gave is in `grad` if there is a `before`, not yet times v;
 * it is if there are none `after`. */
static void NAME(weights_of_one)(int64_t n, int64_t fan_out, int64_t fan_in, const float *g,
                                 const float *v, const float *in, int64_t in_row,
                                 const uint64_t *to, int before, int after, float *grad)
{
    V table[SOME / 4 * 16] IN_LINE;
    for (int64_t col = 0; col < fan_in; col += LANES) {
        int64_t some = fan_in - col < LANES ? fan_in - col : LANES;
        NAME(tables)(table, n, g, in + col, in_row);
        for (int64_t j = 0; j < fan_out; j++) {
            float *at = grad + j * fan_in + col;
            V sum = NAME(picked)((n + 3) / 4, table, to + j * (SOME / 64));
            if (before) sum += NAME(read)(at, some);
            NAME(write)(at, sum * (after ? 1 : v[j]), some);
        }
    }
}

/* The slopes one layer before: slope[i] = g[i] (the sum of v[j] w[j] where bit j of `of[i]` is
 * set), where outputs are positive; and their sums over people, the slopes of biases. */
static void NAME(slopes_of_one)(int64_t n, int64_t fan_out, int64_t in_row, const float *g,
                                const float *v, const float *w, const uint64_t *of,
                                const float *outputs, float *slope, float *total)
{
    V table[16 * 16] IN_LINE;
    for (int64_t col = 0; col < in_row; col += LANES) {
        V all = {0};
        NAME(tables)(table, fan_out, v, w + col, in_row);
        for (int64_t i = 0; i < n; i++) {
            int64_t at = i * in_row + col;
            V sum = {0};
            if (of[i]) sum = g[i] * NAME(picked)((fan_out + 3) / 4, table, of + i);
            *(V *)(slope + at) = sum = NAME(end)(sum, 0, outputs + at);
            all += sum;
        }
        *(V *)(total + col) = all;
    }
}

/* The slopes of the one output's weights, and of the biases of the layer before it. */
static void NAME(ends_of_one)(int64_t n, int64_t width, const float *g, const float *v,
                              const float *in, float *grad, float *bias)
{
    int64_t row = padded(width);
    V sum[64 / LANES] = {{0}}, live[64 / LANES] = {{0}};
    float total = 0;
    for (int64_t i = 0; i < n; i++, in += row) {
        if (g[i] == 0) continue; /* nobody, perhaps */
        total += g[i];
        V own = g[i] + (V){0};
        UNROLL for (int k = 0; k < 64 / LANES; k++) {
            if (k * LANES >= row) break;
            sum[k] += own * *(const V *)(in + k * LANES);
            live[k] += NAME(end)(own, 0, in + k * LANES);
        }
    }
    grad[width] = total;
    for (int64_t k = 0, j = 0; j < width; k++, j += LANES) {
        int64_t some = width - j < LANES ? width - j : LANES;
        NAME(write)(grad + j, sum[k], some);
        NAME(write)(bias + j, live[k] * NAME(read)(v + j, some), some);
    }
}

/* Bit i of to[j] is bit j of from[i], for `count` people; SOME bits in each. */
static void NAME(turn_bits)(const uint64_t *from, int64_t count, uint64_t to[64 * SOME / 64])
{
    for (int64_t word = 0; word < SOME / 64; word++, from += 64, count -= 64) {
        uint64_t block[64] IN_LINE = {0};
        if (count > 8) {
            memcpy(block, from, sizeof(*block) * (count < 64 ? count : 64));
#define SQUARES(half, low) /* of bits: two of each four change places */ \
    for (int k = 0; k < 64; k += 2 * half) \
        for (int q = k; q < k + half; q++) { \
            uint64_t moved = (block[q] >> half ^ block[q + half]) & low; \
            block[q] ^= moved << half; \
            block[q + half] ^= moved; \
        }
            SQUARES(32, 0x00000000FFFFFFFF)
            SQUARES(16, 0x0000FFFF0000FFFF)
            SQUARES(8, 0x00FF00FF00FF00FF)
            SQUARES(4, 0x0F0F0F0F0F0F0F0F)
            SQUARES(2, 0x3333333333333333)
            SQUARES(1, 0x5555555555555555)
#undef SQUARES
        } else {
            for (int64_t i = 0; i < count; i++)
                for (int j = 0; j < 64; j++) block[j] |= (from[i] >> j & 1) << i;
        }
        for (int j = 0; j < 64; j++) to[j * (SOME / 64) + word] = block[j];
    }
}

/* The bits of a layer's outputs for those people who have a slope. Whose is 0 is nobody, perhaps.
 * Return all bits together. */
INLINE uint64_t NAME(alive)(int64_t n, const float *g, const uint64_t *bits, uint64_t *found)
{
    uint64_t any = 0;
    for (int64_t i = 0; i < n; i++) {
        found[i] = g[i] != 0 ? bits[i] : 0;
        any |= found[i];
    }
    return any;
}

/* Two rows of a product with a transposed, where bits of `there` are, of `words` words each. What
 * both need of b is read once. It goes on from what is in c, if it is to `add`. */
INLINE void NAME(pair)(const int cols, int64_t words, const uint64_t *there, const float *a,
                       int64_t along, const float *b, int64_t b_row, float *c, float *d,
                       int64_t last, int add)
{
    V one[4], other[4];
    UNROLL for (int j = 0; j < cols; j++) {
        int64_t some = j < cols - 1 ? LANES : last;
        one[j] = add ? NAME(read)(c + j * LANES, some) : (V){0};
        other[j] = add && d ? NAME(read)(d + j * LANES, some) : (V){0};
    }
    for (int64_t word = 0; word < words; word++, a += 64 * along, b += 64 * b_row) {
        uint64_t first = there[word], second = there[SOME / 64 + word];
        for (uint64_t bits = first & second; bits; bits &= bits - 1) {
            int64_t k = __builtin_ctzll(bits);
            UNROLL for (int j = 0; j < cols; j++) {
                V row = *(const V *)(b + k * b_row + j * LANES);
                one[j] += a[k * along] * row;
                other[j] += a[k * along + 1] * row;
            }
        }
        for (uint64_t bits = first & ~second; bits; bits &= bits - 1) {
            int64_t k = __builtin_ctzll(bits);
            UNROLL for (int j = 0; j < cols; j++)
                one[j] += a[k * along] * *(const V *)(b + k * b_row + j * LANES);
        }
        for (uint64_t bits = second & ~first; bits; bits &= bits - 1) {
            int64_t k = __builtin_ctzll(bits);
            UNROLL for (int j = 0; j < cols; j++)
                other[j] += a[k * along + 1] * *(const V *)(b + k * b_row + j * LANES);
        }
    }
    NAME(store)(cols, one, c, last, 0, 0);
    if (d) NAME(store)(cols, other, d, last, 0, 0);
}

/* The slopes of weights where slopes have zeros as `bits` say. Which sum goes first hangs on these
 * alone: people without a slope change nothing. */
static void NAME(weights_by_bits)(int64_t n, int64_t fan_out, int64_t fan_in, const float *slope,
                                  int64_t row, const uint64_t *bits, const float *in,
                                  int64_t in_row, float *grad)
{
    uint64_t to[64 * SOME / 64];
    for (int64_t i = 0; i == 0 || i < n; i += SOME) {
        int64_t some = n - i < SOME ? n - i : SOME;
        NAME(turn_bits)(bits + i, some, to);
        for (int64_t col = 0; col < fan_in; col += 4 * LANES) {
            int64_t wide = fan_in - col < 4 * LANES ? fan_in - col : 4 * LANES;
            int64_t cols = (wide + LANES - 1) / LANES, last = wide - (cols - 1) * LANES;
            for (int64_t j = 0; j < fan_out; j += 2) {
                float *c = grad + j * fan_in + col, *d = j + 1 < fan_out ? c + fan_in : 0;
                switch (cols) {
#define PAIR(n) \
    case n: \
        NAME(pair)(n, (some + 63) / 64, to + j * (SOME / 64), slope + i * row + j, row, \
                   in + i * in_row + col, in_row, c, d, last, i > 0); \
        break;
                    PAIR(1) PAIR(2) PAIR(3) PAIR(4)
#undef PAIR
                }
            }
        }
    }
}

/* One model's gradient, as `back` has it, if there is one output and layers are narrow. */
static void NAME(back_of_one)(const struct shape *shape, const float *w, const float *inputs,
                              float *hidden, float *work, const float *g, float *grad)
{
    int64_t n = shape->n, layer = shape->layers - 1, size = shape->people * shape->widest;
    int64_t fan_out = 1, fan_in = shape->widths[layer], row = 0;
    float *slopes = work + 2 * shape->weights, *slope = 0, v[64], sums[64];
    uint64_t *bits = (uint64_t *)(slopes + 3 * size), to[64 * SOME / 64];
    for (int64_t k = 0; k < layer; k++) {
        int64_t numbers = (shape->widths[k] + 1) * shape->widths[k + 1];
        w += numbers;
        grad += numbers;
        hidden += k ? block(shape, k) : 0;
    }
    uint64_t any = NAME(alive)(n, g, bits_of(shape, layer, hidden), bits);
    for (int64_t j = 0; j < fan_in; j++) v[j] = any >> j & 1 ? w[j] : 0;
    NAME(ends_of_one)(n, fan_in, g, v, hidden, grad, grad - fan_in);
    while (layer--) {
        const struct units *out = units_of(shape, layer + 1, hidden);
        fan_out = fan_in;
        fan_in = shape->widths[layer];
        w -= (fan_in + 1) * fan_out;
        grad -= (fan_in + 1) * fan_out;
        const float *in = layer ? (hidden -= block(shape, layer)) : inputs;
        int64_t in_row = padded(fan_in);
        if (!slope) {
            for (int64_t i = 0; i == 0 || i < n; i += SOME) {
                int64_t some = n - i < SOME ? n - i : SOME;
                NAME(turn_bits)(bits + i, some, to);
                NAME(weights_of_one)(some, fan_out, fan_in, g + i, v, in + i * in_row, in_row, to,
                                     i > 0, i + some < n, grad);
            }
        } else {
            NAME(weights_by_bits)(n, fan_out, fan_in, slope, row, bits, in, in_row, grad);
        }
        if (!layer) return;
        float *before = slopes + (layer % 2) * size;
        const float *rows = rows_of(w, fan_out, fan_in, work);
        if (!slope) {
            NAME(slopes_of_one)(n, fan_out, in_row, g, v, rows, bits, in, before, sums);
            memcpy(grad - fan_in, sums, sizeof(float) * fan_in);
        } else {
            if (out->seldom)
                NAME(lines)(n, in_row, 1, bits, slope, row, rows, in_row, before, in_row, 0, in);
            else
                NAME(product)(n, in_row, fan_out, slope, row, rows, in_row, before, in_row, 0, in,
                              0);
            NAME(add_up)(n, fan_in, before, in_row, grad - fan_in);
        }
        slope = before;
        row = in_row;
        NAME(alive)(n, g, bits_of(shape, layer, hidden), bits);
    }
}
