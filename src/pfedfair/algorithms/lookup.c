/* Products with a design that is looked up, see lookup.py.
 *
 * Nothing here knows Python: it is called through ctypes, with memory that PyTorch has made. A
 * person has one number in every column: a place, or a point between two places, or nothing. Every
 * input of a column is `scale` times (1 at the places from `low` to `high`, and `factor` at those
 * from `first` to `last`, ends not included). So what all places say about an input are a few
 * differences of running sums, and what costs time are sums over pairs of the places where a person
 * is: some twenty, however many inputs there are. All in double precision, by one thread.
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

struct range {
    int64_t low, high, first, last;
    double factor, scale;
};

/* What a design is, as Python tells it. */
struct design {
    int64_t columns, places; /* places are numbered through all columns, `more` stands behind them */
    int64_t inputs, more;    /* inputs of columns, and further numbers of a person */
    const int64_t *starts;   /* the first place of every column, and the end: (columns + 1) */
    const int64_t *between;  /* whether cells of a column may be between places */
    const struct range *ranges; /* of every input */
    double empty;               /* the number of an empty cell; it stands at a column's last place */
    const float *cells;         /* (n, columns) */
    const double *others;       /* (n, more) */
};

/* The number of this interface: an older library beside newer Python is not used. */
int64_t pfedfair_interface(void) { return 1; }

/* Where a person is, and how much at each place, in ascending order; return how many these are. */
INLINE int64_t places_of(const struct design *d, int64_t person, int64_t *at, double *much)
{
    const float *cells = d->cells + person * d->columns;
    const double *others = d->others + person * d->more;
    int64_t number = 0;
    for (int64_t c = 0; c < d->columns; c++) {
        int64_t start = d->starts[c], last = d->starts[c + 1] - 1;
        double cell = cells[c];
        if (cell == d->empty) {
            at[number] = last;
            much[number++] = 1.0;
            continue;
        }
        int64_t most = last - start - 1 - d->between[c];
        if (most < 0) most = 0;
        int64_t low = cell >= most ? most : cell > 0 ? (int64_t)cell : 0;
        double beyond = d->between[c] ? cell - (double)low : 0.0;
        at[number] = start + low;
        much[number++] = 1.0 - beyond;
        if (beyond != 0.0) {
            at[number] = start + low + 1;
            much[number++] = beyond;
        }
    }
    for (int64_t k = 0; k < d->more; k++)
        if (others[k] != 0.0) {
            at[number] = d->places + k;
            much[number++] = others[k];
        }
    return number;
}

/* From coefficients (inputs + more, width) to what each place adds to scores: into `heights`. */
static void heights_of(const struct design *d, int64_t width, const double *coefficients,
                       double *heights)
{
    int64_t size = d->places + d->more;
    memset(heights, 0, sizeof(double) * size * width);
    for (int64_t j = 0; j < d->inputs; j++) {
        const struct range *r = d->ranges + j;
        for (int64_t k = 0; k < width; k++) {
            double whole = r->scale * coefficients[j * width + k], part = r->factor * whole;
            for (int64_t p = r->low; p < r->high; p++) heights[p * width + k] += whole;
            if (part != 0.0)
                for (int64_t p = r->first; p < r->last; p++) heights[p * width + k] += part;
        }
    }
    memcpy(heights + d->places * width, coefficients + d->inputs * width,
           sizeof(double) * d->more * width);
}

/* From sums at places (places + more, width) to sums of inputs (inputs + more, width). `running`
 * has room for (places + 1, width). */
FAST static void narrow(const struct design *d, int64_t width, const double *sums,
                        double *running, double *found)
{
    memset(running, 0, sizeof(double) * width);
    for (int64_t p = 0; p < d->places; p++)
        for (int64_t k = 0; k < width; k++)
            running[(p + 1) * width + k] = running[p * width + k] + sums[p * width + k];
    for (int64_t j = 0; j < d->inputs; j++) {
        const struct range *r = d->ranges + j;
        const double *low = running + r->low * width, *high = running + r->high * width;
        const double *first = running + r->first * width, *last = running + r->last * width;
        const double *only = sums + r->low * width;
        double *to = found + j * width, factor = r->factor, scale = r->scale;
        if (r->high - r->low == 1) /* exact, where it can be */
            for (int64_t k = 0; k < width; k++) to[k] = only[k];
        else
            for (int64_t k = 0; k < width; k++) to[k] = high[k] - low[k];
        if (factor != 0.0 || scale != 1.0)
            for (int64_t k = 0; k < width; k++)
                to[k] = scale * (to[k] + factor * (last[k] - first[k]));
    }
    memcpy(found + d->inputs * width, sums + d->places * width, sizeof(double) * d->more * width);
}

/* to[j][i] = from[i][j], 8 x 8 numbers at a time. */
FAST static void turn(int64_t rows, int64_t columns, const double *from, double *to)
{
    for (int64_t i = 0; i < rows; i += 8)
        for (int64_t j = 0; j < columns; j += 8)
            if (i + 8 <= rows && j + 8 <= columns)
                for (int64_t k = j; k < j + 8; k++)
                    for (int64_t l = i; l < i + 8; l++) to[k * rows + l] = from[l * columns + k];
            else
                for (int64_t k = j; k < j + 8 && k < columns; k++)
                    for (int64_t l = i; l < i + 8 && l < rows; l++)
                        to[k * rows + l] = from[l * columns + k];
}

/* Add up what a person's places say; `width` is a constant where it is called, if it is small. */
INLINE void add_heights(const struct design *d, int64_t n, const int64_t width,
                        const double *heights, double *scores, int64_t *at, double *much)
{
    for (int64_t i = 0; i < n; i++, scores += width) {
        int64_t number = places_of(d, i, at, much);
        for (int64_t k = 0; k < width; k++) scores[k] = 0.0;
        for (int64_t a = 0; a < number; a++)
            for (int64_t k = 0; k < width; k++) scores[k] += much[a] * heights[at[a] * width + k];
    }
}

/* Scores (n, width) of coefficients (inputs + more, width). Room: (places + more) * width, and for
 * a person's places, which are at most 2 * columns + more. */
void pfedfair_scores(const struct design *d, int64_t n, int64_t width, const double *coefficients,
                     double *scores, double *room, int64_t *at)
{
    double *heights = room, *much = room + (d->places + d->more) * width;
    heights_of(d, width, coefficients, heights);
    if (width == 1) add_heights(d, n, 1, heights, scores, at, much);
    else if (width == 2) add_heights(d, n, 2, heights, scores, at, much);
    else add_heights(d, n, width, heights, scores, at, much);
}

/* Put a person's slopes to the sums of its places. */
INLINE void add_slopes(const struct design *d, int64_t n, const int64_t width,
                       const double *slopes, double *sums, int64_t *at, double *much)
{
    for (int64_t i = 0; i < n; i++, slopes += width) {
        int64_t number = places_of(d, i, at, much);
        for (int64_t a = 0; a < number; a++)
            for (int64_t k = 0; k < width; k++) sums[at[a] * width + k] += much[a] * slopes[k];
    }
}

/* From slopes of scores (n, width) to slopes of coefficients (inputs + more, width). Room:
 * (2 * places + more + 1) * width, and for a person's places. */
void pfedfair_pull(const struct design *d, int64_t n, int64_t width, const double *slopes,
                   double *found, double *room, int64_t *at)
{
    int64_t size = d->places + d->more;
    double *sums = room, *running = sums + size * width;
    double *much = running + (d->places + 1) * width;
    memset(sums, 0, sizeof(double) * size * width);
    if (width == 1) add_slopes(d, n, 1, slopes, sums, at, much);
    else add_slopes(d, n, width, slopes, sums, at, much);
    narrow(d, width, sums, running, found);
}

/* The weighted sum of every person's products of two inputs: the upper triangle of a matrix of
 * (inputs + more, inputs + more). Room:
 * 3 * (1 + more + places, or inputs if they are more)^2, and for a person's places. */
void pfedfair_square(const struct design *d, int64_t n, const double *weight, double *found,
                     double *room, int64_t *at)
{
    int64_t size = d->places + d->more, q = d->inputs + d->more;
    int64_t most = 1 + (size > q ? size : q), all = most * most;
    double *sums = room, *running = sums + all, *rows = running + all, *much = rows + all;
    memset(sums, 0, sizeof(double) * size * size);
    for (int64_t i = 0; i < n; i++) {
        if (weight[i] == 0.0) continue;
        int64_t number = places_of(d, i, at, much);
        for (int64_t a = 0; a < number; a++) { /* pairs once; a place with itself by half */
            double part = weight[i] * much[a], *row = sums + at[a] * size;
            row[at[a]] += 0.5 * part * much[a];
            for (int64_t b = a + 1; b < number; b++) row[at[b]] += part * much[b];
        }
    }
    narrow(d, size, sums, running, rows); /* (q, size) */
    turn(q, size, rows, sums);            /* (size, q) */
    narrow(d, q, sums, running, rows);    /* (q, q) */
    turn(q, q, rows, sums);
    for (int64_t i = 0; i < q; i++)
        for (int64_t k = i * q + i; k < (i + 1) * q; k++) *found++ = rows[k] + sums[k];
}
