/* Products with a design that is looked up, see lookup.py.
 *
 * Nothing here knows Python: it is called through ctypes, with memory that PyTorch has made. A
 * person has one number in every column: a place, or a point between two places, or nothing. Every
 * input of a column is `scale` times (1 at the places from `low` to `high`, and `factor` at those
 * from `first` to `last`, ends not included). So what all places say about an input are a few sums
 * over neighbours, and what costs time are sums over pairs of the places where a person is: some
 * twenty, however many inputs there are. All in double precision, by one thread; a Hessian may be
 * rounded to single when it is done.
 */

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Compiled for several processors, where the system can choose among them when it is loaded. */
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define FAST __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FAST
#endif

#define INLINE static inline __attribute__((always_inline))
#define VECTOR 8 /* numbers side by side */
#define ROWS 3   /* of sums over pairs that are added to at a time */
#define UNROLL _Pragma("GCC unroll 4")

typedef double vector __attribute__((vector_size(8 * VECTOR), aligned(8), may_alias));
typedef double pair __attribute__((vector_size(16), aligned(8), may_alias));
typedef int64_t whole __attribute__((vector_size(8 * VECTOR), aligned(8), may_alias));

struct range {
    int64_t low, high, first, last;
    double factor, scale;
};

/* What a design is, as Python tells it. Places are numbered through all columns; `more` numbers of a
 * person stand behind them. Person i is at the places at[people[i]] to at[people[i + 1]], in
 * ascending order, so `much` at each. */
struct design {
    int64_t columns, places, inputs, more;
    const int64_t *starts;      /* the first place of every column, and the end: (columns + 1) */
    const struct range *ranges; /* of every input; all of its places are in one column */
    const int64_t *order;       /* inputs, column after column */
    const int64_t *firsts;      /* where each column's begin in that order, and the end */
    const int64_t *people;
    const int32_t *at;
    const double *much;
};

/* The number of this interface: an older library beside newer Python is not used. */
int64_t pfedfair_interface(void) { return 5; }

/* Where everybody is: from cells (n, columns), which may be `between` places or `empty` (then they
 * stand at a column's last place), and others (n, more). There is room for 2 * columns + more places
 * of each person. */
void pfedfair_places(int64_t n, int64_t columns, int64_t more, const int64_t *starts,
                     const int64_t *between, double empty, const float *cells,
                     const double *others, int64_t *people, int32_t *at, double *much)
{
    int64_t number = 0;
    people[0] = 0;
    for (int64_t i = 0; i < n; i++, cells += columns, others += more) {
        for (int64_t c = 0; c < columns; c++) {
            int64_t start = starts[c], last = starts[c + 1] - 1;
            double cell = cells[c];
            if (cell == empty) {
                at[number] = (int32_t)last;
                much[number++] = 1.0;
                continue;
            }
            int64_t most = last - start - 1 - between[c];
            if (most < 0) most = 0;
            int64_t low = cell >= most ? most : cell > 0 ? (int64_t)cell : 0;
            double beyond = between[c] ? cell - (double)low : 0.0;
            at[number] = (int32_t)(start + low);
            much[number++] = 1.0 - beyond;
            if (beyond != 0.0) {
                at[number] = (int32_t)(start + low + 1);
                much[number++] = beyond;
            }
        }
        for (int64_t k = 0; k < more; k++)
            if (others[k] != 0.0) {
                at[number] = (int32_t)(starts[columns] + k);
                much[number++] = others[k];
            }
        people[i + 1] = number;
    }
}

/* Whether a column ends before this place. */
INLINE int ends_before(const struct design *d, int64_t place)
{
    for (int64_t c = 1; c <= d->columns; c++)
        if (d->starts[c] == place) return 1;
    return 0;
}

/* From coefficients (inputs + more, width) to what each place adds to scores: into `heights`
 * (places + more, wide), whose further columns are 0. First what changes from each place to the
 * next in a column, then all changes added up, then what is at one place alone. */
static void heights_of(const struct design *d, int64_t width, int64_t wide,
                       const double *coefficients, double *heights)
{
    memset(heights, 0, sizeof(double) * (d->places + d->more) * wide);
    for (int64_t j = 0; j < d->inputs; j++) {
        const struct range *r = d->ranges + j;
        const double *of = coefficients + j * width;
        if (r->high - r->low > 1) {
            int on = ends_before(d, r->high);
            for (int64_t k = 0; k < width; k++) {
                heights[r->low * wide + k] += r->scale * of[k];
                if (!on) heights[r->high * wide + k] -= r->scale * of[k];
            }
        }
        if (r->factor != 0.0 && r->last > r->first) {
            int on = ends_before(d, r->last);
            for (int64_t k = 0; k < width; k++) {
                heights[r->first * wide + k] += r->factor * r->scale * of[k];
                if (!on) heights[r->last * wide + k] -= r->factor * r->scale * of[k];
            }
        }
    }
    for (int64_t c = 0; c < d->columns; c++)
        for (int64_t k = (d->starts[c] + 1) * wide; k < d->starts[c + 1] * wide; k++)
            heights[k] += heights[k - wide];
    for (int64_t j = 0; j < d->inputs; j++) {
        const struct range *r = d->ranges + j;
        if (r->high - r->low == 1)
            for (int64_t k = 0; k < width; k++)
                heights[r->low * wide + k] += r->scale * coefficients[j * width + k];
    }
    for (int64_t k = 0; k < d->more; k++)
        memcpy(heights + (d->places + k) * wide, coefficients + (d->inputs + k) * width,
               sizeof(double) * width);
}

/* What a person's places say, VECTOR scores at a time. */
INLINE void scores_of(const struct design *d, int64_t person, int64_t wide, const double *heights,
                      double *scores)
{
    for (int64_t k = 0; k < wide; k += VECTOR) {
        double sums[VECTOR] = {0.0};
        for (int64_t a = d->people[person]; a < d->people[person + 1]; a++) {
            const double *row = heights + d->at[a] * wide + k;
            for (int l = 0; l < VECTOR; l++) sums[l] += d->much[a] * row[l];
        }
        for (int l = 0; l < VECTOR; l++) scores[k + l] = sums[l];
    }
}

INLINE int64_t padded(int64_t width) { return (width + VECTOR - 1) / VECTOR * VECTOR; }

/* Scores (n, width) of coefficients (inputs + more, width). Room for (places + more + 1) numbers
 * times the width, which is padded to a multiple of VECTOR. */
FAST void pfedfair_scores(const struct design *d, int64_t n, int64_t width,
                          const double *coefficients, double *scores, double *room)
{
    int64_t wide = padded(width);
    double *heights = room + wide;
    heights_of(d, width, wide, coefficients, heights);
    for (int64_t i = 0; i < n; i++) {
        scores_of(d, i, wide, heights, room);
        memcpy(scores + i * width, room, sizeof(double) * width);
    }
}

/* A column, or after the last one the further numbers of a person, each a place and an input. */
struct column {
    int64_t start, places, inputs;
    const int64_t *order; /* of its inputs, if it is a column */
};

INLINE struct column column_of(const struct design *d, int64_t c)
{
    if (c == d->columns) return (struct column){d->places, d->more, d->more, 0};
    return (struct column){d->starts[c], d->starts[c + 1] - d->starts[c],
                           d->firsts[c + 1] - d->firsts[c], d->order + d->firsts[c]};
}

INLINE int64_t input_of(const struct design *d, const struct column *c, int64_t j)
{
    return c->order ? c->order[j] : d->inputs + j;
}

/* to = scale * (own + factor * rest), where a line more may come to its own first. */
INLINE void put(int64_t width, double scale, double *restrict own, const double *restrict more,
                double factor, const double *restrict rest, double *restrict to)
{
    if (!more && factor == 0.0 && scale == 1.0) memcpy(to, own, sizeof(double) * width);
    else
        for (int64_t k = 0; k < width; k++) {
            double sum = more ? (own[k] += more[k]) : own[k];
            to[k] = scale * (factor == 0.0 ? sum : sum + factor * rest[k]);
        }
}

/* From sums at the places of a column, (places, width) but `apart` numbers from one to the next, to
 * sums of its inputs (inputs, width). Room: (2, width).
 *
 * An input that is one place alone is that place's sums. Ramps all end at the same place, so each is
 * the next one and a place more. What a factor belongs to is the same for all inputs of a column as
 * a rule: all places with a number, or those of no known level, where often nobody is. */
FAST static void narrow(const struct design *d, const struct column *c, int64_t width,
                        int64_t apart, double *restrict sums, double *restrict room,
                        double *restrict found)
{
    double *rest = room, *ramp = rest + width;
    int64_t first = 0, last = 0, some = 0, low = 0, high = -1; /* what rest and ramp add up */
    sums -= c->start * apart;
    for (int64_t j = c->inputs - 1; j >= 0; j--) {
        double *to = found + j * width;
        if (!c->order) {
            memcpy(to, sums + (c->start + j) * apart, sizeof(double) * width);
            continue;
        }
        const struct range *r = d->ranges + c->order[j];
        int factored = r->factor != 0.0 && r->last > r->first;
        if (factored && (r->first != first || r->last != last)) {
            first = r->first, last = r->last, some = 0;
            memset(rest, 0, sizeof(double) * width);
            for (int64_t p = first; p < last; p++)
                for (int64_t k = 0; k < width; k++) rest[k] += sums[p * apart + k];
            for (int64_t k = 0; k < width; k++) some |= rest[k] != 0.0;
        }
        double factor = factored && some ? r->factor : 0.0;
        if (r->high - r->low == 1) {
            put(width, r->scale, sums + r->low * apart, 0, factor, rest, to);
            continue;
        }
        if (r->high <= r->low || r->high != high || r->low > low) {
            memset(ramp, 0, sizeof(double) * width);
            low = high = r->high;
        }
        for (; low > r->low + 1; low--)
            for (int64_t k = 0; k < width; k++) ramp[k] += sums[(low - 1) * apart + k];
        const double *more = low > r->low ? sums + --low * apart : 0;
        put(width, r->scale, ramp, more, factor, rest, to);
    }
}

/* Whether inputs of a column are its first places' sums as they are: levels, all of them known. */
INLINE int as_they_are(const struct design *d, const struct column *c, int64_t width, int64_t apart,
                       const double *sums)
{
    int64_t first = 0, last = 0; /* where nobody is */
    sums -= c->start * apart;
    for (int64_t j = 0; c->order && j < c->inputs; j++) {
        const struct range *r = d->ranges + c->order[j];
        if (r->low != c->start + j || r->high != r->low + 1 || r->scale != 1.0) return 0;
        if (r->factor == 0.0 || (r->first == first && r->last == last)) continue;
        first = r->first, last = r->last;
        int some = 0;
        for (int64_t p = first; p < last; p++)
            for (int64_t k = 0; k < width; k++) some |= sums[p * apart + k] != 0.0;
        if (some) return 0;
    }
    return 1;
}

/* The same, or the sums themselves where nothing is to be done: lines are `step` numbers apart. */
INLINE double *narrowed(const struct design *d, const struct column *c, int64_t width,
                        int64_t apart, double *sums, double *room, double *rows, int64_t *step)
{
    if (as_they_are(d, c, width, apart, sums)) return *step = apart, sums;
    narrow(d, c, width, apart, sums, room, rows);
    return *step = width, rows;
}

/* to[j][i] = from[i][j], 8 x 8 numbers at a time, from lines that are `step` numbers apart to such
 * that are `apart`. */
FAST static void turn(int64_t rows, int64_t columns, const double *restrict from, int64_t step,
                      int64_t apart, double *restrict to)
{
    for (int64_t j = 0; j < columns; j += 8)
        for (int64_t i = 0; i < rows; i += 8)
            if (i + 8 <= rows && j + 8 <= columns)
                for (int64_t k = j; k < j + 8; k++)
                    for (int64_t l = i; l < i + 8; l++) to[k * apart + l] = from[l * step + k];
            else
                for (int64_t k = j; k < j + 8 && k < columns; k++)
                    for (int64_t l = i; l < i + 8 && l < rows; l++)
                        to[k * apart + l] = from[l * step + k];
}

/* The same for all columns: from sums (places + more, width) to sums of inputs (inputs + more,
 * width). Room: (tall + 2) * width, where no column has more than `tall` inputs. */
static void narrow_all(const struct design *d, int64_t width, double *sums, double *room,
                       double *found)
{
    for (int64_t c = 0; c <= d->columns; c++) {
        struct column own = column_of(d, c);
        double *rows = room + 2 * width;
        narrow(d, &own, width, width, sums + own.start * width, room, rows);
        for (int64_t j = 0; j < own.inputs; j++)
            memcpy(found + input_of(d, &own, j) * width, rows + j * width, sizeof(double) * width);
    }
}

/* From slopes of scores (n, width) to slopes of coefficients (inputs + more, width). Room:
 * (places + more + tall + 2) * width. */
FAST void pfedfair_pull(const struct design *d, int64_t n, int64_t width, const double *slopes,
                        double *found, double *room)
{
    int64_t size = d->places + d->more;
    memset(room, 0, sizeof(double) * size * width);
    for (int64_t i = 0; i < n; i++, slopes += width)
        for (int64_t a = d->people[i]; a < d->people[i + 1]; a++)
            for (int64_t k = 0; k < width; k++)
                room[d->at[a] * width + k] += d->much[a] * slopes[k];
    narrow_all(d, width, room, room + size * width, found);
}

/* A number of a matrix in double precision, if it is to be `exact`, or in single. */
INLINE void put_number(int exact, double number, void *found, int64_t at)
{
    if (exact) ((double *)found)[at] = number;
    else ((float *)found)[at] = (float)number;
}

/* A line of the upper triangle of a matrix of (q, q): the sums of an input, the one at `place` of
 * all columns' order, with itself and all that come after it there. */
static void put_line(const struct design *d, int64_t place, int64_t q, const double *line,
                     int exact, void *found)
{
    int64_t one = place < d->inputs ? d->order[place] : place;
    for (int64_t k = place; k < q; k++) {
        int64_t other = k < d->inputs ? d->order[k] : k;
        int64_t low = one < other ? one : other, high = one < other ? other : one;
        put_number(exact, line[k - place], found, low * (2 * q - low - 1) / 2 + high);
    }
}

/* Whether inputs are numbered column after column: then a line lies in one piece. */
INLINE int in_order(const struct design *d)
{
    for (int64_t k = 0; k < d->inputs; k++)
        if (d->order[k] != k) return 0;
    return 1;
}

/* From sums over pairs of places (size, size), each pair once, the later place first, and a place
 * with itself by half, to the upper triangle of a matrix of (inputs + more, inputs + more). First
 * from the later places of all pairs to inputs, then from the others; lines are long each time.
 * Room: `pfedfair_room` less (places + more)^2. */
FAST static void triangle(const struct design *d, double *sums, int64_t tall, double *room,
                          int exact, void *found)
{
    int64_t size = d->places + d->more, q = d->inputs + d->more, before = 0;
    int64_t wide = size > q ? size : q, sorted = in_order(d), step;
    double *rows = room + 2 * wide, *turned = rows + tall * wide, *lines;
    for (int64_t c = 0; c <= d->columns; c++) {
        struct column late = column_of(d, c);
        int64_t width = late.start + late.places; /* of the same column, too */
        lines = narrowed(d, &late, width, size, sums + late.start * size, room, rows, &step);
        turn(late.inputs, width, lines, step, q, turned + before);
        before += late.inputs;
    }
    before = 0;
    for (int64_t c = 0; c <= d->columns; c++) {
        struct column early = column_of(d, c);
        int64_t width = q - before;
        lines = turned + early.start * q + before;
        lines = narrowed(d, &early, width, q, lines, room, rows, &step);
        for (int64_t i = 0; i < early.inputs; i++, before++) {
            double *own = lines + i * step;
            for (int64_t j = i; j < early.inputs; j++) own[j] += lines[j * step + i];
            int64_t to = before * (2 * q - before - 1) / 2 + before;
            if (!sorted) put_line(d, before, q, own + i, exact, found);
            else if (exact)
                for (int64_t k = i; k < width; k++) put_number(1, own[k], found, to++);
            else
                for (int64_t k = i; k < width; k++) put_number(0, own[k], found, to++);
        }
    }
}

/* Numbers of the room that a Hessian takes, where no column has more than `tall` inputs: sums over
 * pairs of places, and what `triangle` needs. */
int64_t pfedfair_room(const struct design *d, int64_t tall)
{
    int64_t size = d->places + d->more, q = d->inputs + d->more, wide = size > q ? size : q;
    return size * size + (tall + 2) * wide + size * q;
}

/* Begin sums over pairs of places: each with those of its own column, and of columns before. */
INLINE void clear(const struct design *d, double *sums)
{
    for (int64_t c = 0; c <= d->columns; c++) {
        struct column own = column_of(d, c);
        for (int64_t p = own.start; p < own.start + own.places; p++)
            memset(sums + p * (d->places + d->more), 0, sizeof(double) * (own.start + own.places));
    }
}

/* Put a person's weight to the sums of pairs of its places: of `rows` places from the one numbered
 * `from` on, with those before them and with each other. */
INLINE void add_rows(const int rows, int64_t from, const int32_t *at, const double *much,
                     double weight, int64_t size, double *sums)
{
    double part[ROWS], *row[ROWS];
    UNROLL for (int k = 0; k < rows; k++)
        part[k] = weight * much[from + k], row[k] = sums + at[from + k] * size;
    for (int64_t b = 0; b < from; b++)
        UNROLL for (int k = 0; k < rows; k++) row[k][at[b]] += part[k] * much[b];
    UNROLL for (int k = 0; k < rows; k++) {
        for (int l = 0; l < k; l++) row[k][at[from + l]] += part[k] * much[from + l];
        row[k][at[from + k]] += 0.5 * part[k] * much[from + k];
    }
}

/* The same for all pairs; some rows at a time take fewer branches, and fewer that are guessed. */
INLINE void add_pairs(const struct design *d, int64_t person, double weight, double *sums)
{
    int64_t size = d->places + d->more, number = d->people[person + 1] - d->people[person], a = 0;
    const int32_t *at = d->at + d->people[person];
    const double *much = d->much + d->people[person];
    for (; a + ROWS <= number; a += ROWS) add_rows(ROWS, a, at, much, weight, size, sums);
    for (; a < number; a++) add_rows(1, a, at, much, weight, size, sums);
}

/* The weighted sum of every person's products of two inputs: the upper triangle of a matrix of
 * (inputs + more, inputs + more). Room: `pfedfair_room`. */
void pfedfair_square(const struct design *d, int64_t n, int64_t tall, const double *weight,
                     double *found, double *room)
{
    int64_t size = d->places + d->more;
    clear(d, room);
    for (int64_t i = 0; i < n; i++)
        if (weight[i] != 0.0) add_pairs(d, i, weight[i], room);
    triangle(d, room, tall, room + size * size, 1, found);
}

/* exp(-|x|), to the last digit or two: 2 to a whole power, times a short series. */
INLINE vector small_of(vector x)
{
    const double magic = 0x1.8p52; /* plus it, a number's last bits are the nearest whole number */
    vector away = (vector)((whole)x & INT64_MAX), r, sum;
    away = (vector)(((whole)away & (whole)(away < 700.0)) | ((whole)(away * 0.0 + 700.0) &
                                                            (whole)(away >= 700.0)));
    r = -away;
    vector shifted = r * 0x1.71547652b82fep0 + magic, power = shifted - magic;
    r = r - power * 0x1.62e42fefa39efp-1 - power * 0x1.abc9e3b39803fp-56;
    sum = r * (1.0 / 6227020800.0) + 1.0 / 479001600.0;
    sum = sum * r + 1.0 / 39916800.0;
    sum = sum * r + 1.0 / 3628800.0;
    sum = sum * r + 1.0 / 362880.0;
    sum = sum * r + 1.0 / 40320.0;
    sum = sum * r + 1.0 / 5040.0;
    sum = sum * r + 1.0 / 720.0;
    sum = sum * r + 1.0 / 120.0;
    sum = sum * r + 1.0 / 24.0;
    sum = sum * r + 1.0 / 6.0;
    sum = sum * r + 0.5;
    sum = sum * r + 1.0;
    sum = sum * r + 1.0;
    return sum * (vector)(((whole)shifted + 1023) << 52);
}

/* The larger of 0 and x; what is no number stays so. */
INLINE vector above_zero(vector x) { return (vector)((whole)x & ~(whole)(x < 0.0)); }

/* Sums of log(1 + exp(m)) over people, for several vectors of m.
 *
 * The larger of 0 and m is added up, and 1 + exp(-|m|), which is at most 2, is multiplied with that
 * of others: so there is one logarithm for many people. Who counts for more or less than one has
 * logarithms alone. */
#define AT_ONCE 512
#define MOST 64
#define WAYS 9
struct lost {
    int64_t people;
    vector sums[WAYS], products[WAYS]; /* as many as ways, and no fewer than MOST / VECTOR */
};

INLINE void begin(struct lost *lost)
{
    lost->people = 0;
    for (int k = 0; k < WAYS; k++) lost->sums[k] = (vector){0.0}, lost->products[k] = lost->sums[k] + 1.0;
}

INLINE void settle(struct lost *lost)
{
    for (int k = 0; k < WAYS; k++)
        for (int l = 0; l < VECTOR; l++) {
            lost->sums[k][l] += log(lost->products[k][l]);
            lost->products[k][l] = 1.0;
        }
    lost->people = 0;
}

/* `small` is exp(-|m|); people count so much, or 1 if nothing is said. */
INLINE void lose(struct lost *lost, int64_t k, vector m, vector small, const double *much)
{
    if (!much) {
        lost->sums[k] += above_zero(m);
        lost->products[k] *= 1.0 + small;
        return;
    }
    vector all = above_zero(m);
    for (int l = 0; l < VECTOR; l++) lost->sums[k][l] += much[l] * (all[l] + log1p(small[l]));
}

/* All that a Newton step needs of people with labels 0 and 1, parts of them apart.
 *
 * At points[0] of coefficients (inputs + more, 2) the gradients (parts, inputs + more) and Hessians
 * (parts, upper triangle), in single precision unless `exact`, and the losses (parts, WAYS) on the way there from points[1]: of all of
 * it, a half, ..., a 128th, and none of it. `shift` (parts, 2) is put to the scores. People count as
 * `weight` says, if it is there; part k has those from ends[k] to ends[k + 1]. Room:
 * `pfedfair_room`, and 3 * (places + more). */
FAST void pfedfair_sums(const struct design *d, int64_t parts, int64_t tall, int64_t exact,
                        const int64_t *ends, const double *points, const double *shift,
                        const float *labels, const double *weight, double *loss,
                        double *gradients, void *hessians, double *room)
{
    int64_t size = d->places + d->more, q = d->inputs + d->more;
    int64_t hessian = q * (q + 1) / 2 * (exact ? sizeof(double) : sizeof(float));
    double *pairs = room, *heights = pairs + size * size, *sums = heights + 2 * size;
    double *more = sums + size;
    struct lost lost;
    heights_of(d, 2, 2, points, heights);
    for (int64_t k = 0; k < parts; k++, shift += 2, loss += WAYS) {
        begin(&lost);
        memset(sums, 0, sizeof(double) * size);
        clear(d, pairs);
        for (int64_t start = ends[k]; start < ends[k + 1]; start += VECTOR) {
            int64_t some = ends[k + 1] - start < VECTOR ? ends[k + 1] - start : VECTOR;
            vector sign, m0, m1, much;
            for (int64_t l = 0; l < VECTOR; l++) { /* nobody has no loss */
                sign[l] = 1.0, m0[l] = m1[l] = -1000.0, much[l] = 0.0;
                if (l >= some) continue;
                int64_t i = start + l;
                pair z = *(const pair *)shift;
                for (int64_t a = d->people[i]; a < d->people[i + 1]; a++)
                    z += d->much[a] * *(const pair *)(heights + 2 * d->at[a]);
                if (labels[i] > 0.5f) sign[l] = -1.0, z = -z;
                m0[l] = z[0], m1[l] = z[1], much[l] = weight ? weight[i] : 1.0;
            }
            vector small = small_of(m0), large = 1.0 / (1.0 + small), part = {0.0};
            vector right = (vector)((whole)large & (whole)(m0 > 0.0));
            vector wrong = (vector)((whole)(small * large) & ~(whole)(m0 > 0.0));
            vector slopes = much * sign * (right + wrong), curves = much * small * large * large;
            lose(&lost, 0, m0, small, weight ? (double *)&much : 0);
            part += 0.5;
            for (int way = 1; way < WAYS; way++, part *= way < WAYS - 1 ? 0.5 : 0.0) {
                vector m = m1 + part * (m0 - m1);
                lose(&lost, way, m, small_of(m), weight ? (double *)&much : 0);
            }
            if (++lost.people == AT_ONCE) settle(&lost);
            for (int64_t l = 0; l < some; l++) {
                int64_t i = start + l;
                for (int64_t a = d->people[i]; a < d->people[i + 1]; a++)
                    sums[d->at[a]] += d->much[a] * slopes[l];
                add_pairs(d, i, curves[l], pairs);
            }
        }
        narrow_all(d, 1, sums, more, gradients + k * q);
        triangle(d, pairs, tall, more, exact != 0, (char *)hessians + k * hessian);
        settle(&lost);
        for (int way = 0; way < WAYS; way++) {
            loss[way] = 0.0;
            for (int l = 0; l < VECTOR; l++) loss[way] += lost.sums[way][l];
        }
    }
}

/* The losses (parts, width) of people with labels 0 and 1 by some models, at most MOST. There are
 * several sets of them, (sets, inputs + more, width), which parts take in turns: part k has the
 * people from ends[k] to ends[k + 1], and `shift` (parts) is put to their scores. Room for
 * (places + more + 1) numbers times the width, which is padded to a multiple of VECTOR. */
FAST void pfedfair_losses(const struct design *d, int64_t parts, int64_t width, int64_t sets,
                          const int64_t *ends, const double *coefficients, const double *shift,
                          const float *labels, const double *weight, double *loss, double *room)
{
    int64_t wide = padded(width), q = d->inputs + d->more;
    double *scores = room, *heights = room + wide, much[VECTOR];
    struct lost lost;
    for (int64_t part = 0; part < parts; part++, loss += width) {
        begin(&lost);
        heights_of(d, width, wide, coefficients + part % sets * q * width, heights);
        for (int64_t i = ends[part]; i < ends[part + 1]; i++) {
            scores_of(d, i, wide, heights, scores);
            for (int l = 0; l < VECTOR; l++) much[l] = weight ? weight[i] : 1.0;
            for (int64_t k = 0; k < wide; k += VECTOR) {
                vector m = *(vector *)(scores + k) + shift[part];
                if (labels[i] > 0.5f) m = -m;
                lose(&lost, k / VECTOR, m, small_of(m), weight ? much : 0);
            }
            if (++lost.people == AT_ONCE) settle(&lost);
        }
        settle(&lost);
        for (int64_t k = 0; k < width; k++) loss[k] = lost.sums[k / VECTOR][k % VECTOR];
    }
}
