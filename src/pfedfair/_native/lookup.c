/* Sums over pairs of lines of a basis's tables, see methods/newton/lookup.py.
 *
 * Nothing here knows Python: it is called through ctypes, with memory that PyTorch has made. A row
 * of a design is a few lines of these tables, added up. So the weighted sum of rows' products with
 * themselves is one over pairs of lines, some hundred per row however many inputs there are, and
 * then goes from lines to inputs on both sides. All in double precision, by one thread.
 */

#include <stdint.h>
#include <string.h>

/* Compiled for several processors, where the system can choose among them when it is loaded. */
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define FAST __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FAST
#endif

#define INLINE static inline __attribute__((always_inline))
#define TILE 8

/* `Basis` of data/tables/basis.py. Column c has the lines from first[c] to first[c + 1], the ramps
 * from ramps[c] to ramps[c + 1], and of all inputs the indicators from flags[c] to flags[c + 1].
 * Indicators are 1 at their line, and at those from known[c] on they have their share in addition.
 * Behind the lines and inputs of all columns stand `more` that are both. */
struct basis {
    int64_t columns, lines, width, more, slots;
    const int64_t *first, *ramps, *flags, *known;
    const int64_t *line;  /* of every indicator */
    const int64_t *order; /* slots column after column, so that a row's lines ascend */
    const double *mean, *scale; /* of every ramp */
    const double *share;        /* of every indicator */
};

/* The number of this interface: an older library beside newer Python is not used. */
int64_t pfedfair_interface(void) { return 7; }

/* Add a row's pairs of lines to sums (size, size): the later line first, one with itself by half. */
INLINE void add_pairs(int64_t number, const int64_t *at, const double *much, double weight,
                      int64_t size, double *restrict sums)
{
    for (int64_t a = 0; a < number; a++) {
        double part = weight * much[a], *row = sums + at[a] * size;
        for (int64_t b = 0; b < a; b++) row[at[b]] += part * much[b];
        row[at[a]] += 0.5 * part * much[a];
    }
}

INLINE void add(int64_t n, double factor, const double *restrict x, double *restrict to)
{
    for (int64_t k = 0; k < n; k++) to[k] += factor * x[k];
}

INLINE int64_t lines_of(const struct basis *b, int64_t c)
{
    return c < b->columns ? b->first[c + 1] - b->first[c] : b->more;
}

INLINE int64_t ramps_of(const struct basis *b, int64_t c)
{
    return c < b->columns ? b->ramps[c + 1] - b->ramps[c] : 0;
}

INLINE int64_t inputs_of(const struct basis *b, int64_t c)
{
    return c < b->columns ? ramps_of(b, c) + b->flags[c + 1] - b->flags[c] : b->more;
}

/* The number of the column's j-th input among all. */
INLINE int64_t input_of(const struct basis *b, int64_t c, int64_t j)
{
    if (c == b->columns) return b->width + j;
    return j < ramps_of(b, c) ? b->ramps[c] + j : b->flags[c] + j - ramps_of(b, c);
}

/* From sums of a column's lines (lines, n), `*step` numbers apart, to sums of its inputs: in `room`,
 * behind 2 * n numbers, or the lines' own if nothing is to be done. */
FAST static double *to_inputs(const struct basis *b, int64_t c, int64_t n, int64_t *step,
                              double *own, double *restrict room)
{
    if (c == b->columns) return own;
    int64_t ramps = ramps_of(b, c), flags = inputs_of(b, c) - ramps, some = 0, moved = ramps;
    const int64_t *line = b->line + b->flags[c] - b->ramps[b->columns];
    const double *share = b->share + b->flags[c] - b->ramps[b->columns];
    const double *mean = b->mean + b->ramps[c], *scale = b->scale + b->ramps[c];
    double *above = room, *nowhere = above + n, *inputs = nowhere + n;
    memset(nowhere, 0, sizeof(double) * n);
    for (int64_t l = b->known[c]; l < b->first[c + 1]; l++)
        add(n, 1.0, own + (l - b->first[c]) * *step, nowhere);
    for (int64_t k = 0; k < n; k++) some |= nowhere[k] != 0.0;
    for (int64_t j = 0; j < flags; j++) moved |= line[j] != b->first[c] + j;
    if (!moved && !some) return own;
    memset(above, 0, sizeof(double) * n);
    for (int64_t j = ramps - 1; j >= 0; j--) { /* a ramp is 1 above its beginning */
        add(n, 1.0, own + (j + 1) * *step, above);
        for (int64_t k = 0; k < n; k++) inputs[j * n + k] = scale[j] * above[k];
    }
    if (ramps) add(n, 1.0, own, above); /* all, but missing values */
    for (int64_t j = 0; j < ramps; j++) add(n, -scale[j] * mean[j], above, inputs + j * n);
    for (int64_t j = 0; j < flags; j++) {
        double *to = inputs + (ramps + j) * n;
        memcpy(to, own + (line[j] - b->first[c]) * *step, sizeof(double) * n);
        if (some && share[j] != 0.0) add(n, share[j], nowhere, to);
    }
    *step = n;
    return inputs;
}

/* to[j][i] = from[i][j], a tile at a time; lines are `step` and `apart` numbers apart. */
FAST static void turn(int64_t rows, int64_t columns, const double *restrict from, int64_t step,
                      int64_t apart, double *restrict to)
{
    for (int64_t j = 0; j < columns; j += TILE)
        for (int64_t i = 0; i < rows; i += TILE)
            if (i + TILE <= rows && j + TILE <= columns)
                for (int64_t k = j; k < j + TILE; k++)
                    for (int64_t l = i; l < i + TILE; l++) to[k * apart + l] = from[l * step + k];
            else
                for (int64_t k = j; k < columns && k < j + TILE; k++)
                    for (int64_t l = i; l < rows && l < i + TILE; l++)
                        to[k * apart + l] = from[l * step + k];
}

/* Numbers of input `one` with n others from `first` on, to an upper triangle of (q, q). */
INLINE void put(int64_t q, int64_t one, int64_t first, int64_t n, const double *restrict from,
                float *restrict found)
{
    if (one <= first) {
        float *to = found + one * (2 * q - one - 1) / 2 + first;
        for (int64_t k = 0; k < n; k++) to[k] = (float)from[k];
    } else
        for (int64_t k = 0, low = first; k < n; k++, low++)
            found[low * (2 * q - low - 1) / 2 + one] = (float)from[k];
}

/* From sums over pairs of lines to the upper triangle of a matrix of inputs, row by row. First from
 * the later lines of all pairs to inputs, then from the others. */
FAST static void triangle(const struct basis *b, int64_t size, int64_t q, double *sums, double *turned,
                     double *room, float *found)
{
    int64_t before = 0, line = 0, step;
    for (int64_t c = 0; c <= b->columns; before += inputs_of(b, c), c++) {
        int64_t n = line + lines_of(b, c); /* those of the same column, too */
        const double *rows = to_inputs(b, c, n, (step = size, &step), sums + line * size, room);
        turn(inputs_of(b, c), n, rows, step, q, turned + before);
        line = n;
    }
    before = line = 0;
    for (int64_t c = 0; c <= b->columns; line += lines_of(b, c), c++) {
        int64_t inputs = inputs_of(b, c), n = q - before;
        double *rows = to_inputs(b, c, n, (step = q, &step), turned + line * q + before, room);
        for (int64_t i = 0; i < inputs; i++) {
            int64_t one = input_of(b, c, i);
            const double *own = rows + i * step;
            for (int64_t j = i; j < inputs; j++) rows[i * step + j] += rows[j * step + i];
            for (int64_t d = c; d <= b->columns; own += inputs_of(b, d), d++) {
                int64_t all = inputs_of(b, d), ramps = ramps_of(b, d), from = d == c ? i : 0;
                int64_t flags = from > ramps ? from : ramps;
                put(q, one, input_of(b, d, from), ramps - from, own + from, found);
                put(q, one, input_of(b, d, flags), all - flags, own + flags, found);
            }
        }
        before += inputs;
    }
}

/* Numbers of the room that `pfedfair_squares` takes. */
int64_t pfedfair_room(const struct basis *b)
{
    int64_t size = b->lines + b->more, q = b->width + b->more, wide = size > q ? size : q, tall = 0;
    for (int64_t c = 0; c < b->columns; c++)
        if (inputs_of(b, c) > tall) tall = inputs_of(b, c);
    return size * size + size * q + (tall + 2) * wide + 2 * (b->slots + b->more);
}

/* Each part's weighted sum of rows' products with themselves, to the upper triangles of matrices,
 * found (parts, q * (q + 1) / 2). Part k has the rows from ends[k] to ends[k + 1]. A row takes the
 * lines at (n, slots), so `much` of each, and `more` numbers (n, more). */
void pfedfair_squares(const struct basis *b, int64_t parts, const int64_t *ends, const int32_t *at,
                      const double *much, const double *more, const double *weight, float *found,
                      double *room)
{
    int64_t size = b->lines + b->more, q = b->width + b->more;
    double *sums = room, *turned = sums + size * size, *values = turned + size * q;
    int64_t *lines = (int64_t *)(values + b->slots + b->more);
    double *beside = values + 2 * (b->slots + b->more);
    for (int64_t part = 0; part < parts; part++, found += q * (q + 1) / 2) {
        memset(sums, 0, sizeof(double) * size * size);
        for (int64_t i = ends[part]; i < ends[part + 1]; i++) {
            int64_t number = 0;
            for (int64_t k = 0; k < b->slots; k++) {
                int64_t slot = i * b->slots + b->order[k];
                lines[number] = at[slot], values[number] = much[slot];
                number += values[number] != 0.0;
            }
            for (int64_t k = 0; k < b->more; k++) {
                lines[number] = b->lines + k, values[number] = more[i * b->more + k];
                number += values[number] != 0.0;
            }
            add_pairs(number, lines, values, weight[i], size, sums);
        }
        triangle(b, size, q, sums, turned, beside, found);
    }
}
