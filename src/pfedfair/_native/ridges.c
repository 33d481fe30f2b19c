/* Linear systems that differ by their diagonals, see ridges.py.
 *
 * Cholesky's way, one system after another: a factor of some hundred rows stays in the cache. Some
 * columns at a time, rows side by side in vectors. In double precision, by one thread.
 */

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Compiled for several processors, where the system can choose among them when it is loaded. */
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define FAST __attribute__((target_clones("avx512f", "avx2,fma", "default")))
#else
#define FAST
#endif

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")
#define VECTOR 8  /* rows side by side */
#define VECTORS 4 /* vectors of a column that are worked on at a time */
#define COLUMNS 4 /* and columns */

typedef double vector __attribute__((vector_size(8 * VECTOR), aligned(8), may_alias));

/* The number of this interface: an older library beside newer Python is not used. */
int64_t pfedfair_interface(void) { return 3; }

INLINE int64_t padded(int64_t n) { return (n + VECTOR - 1) / VECTOR * VECTOR; }

/* The lower triangle of matrix + diag(more), column by column, `tall` numbers each; what is missing
 * to full vectors and columns is that of the unit matrix. `matrix` is an upper triangle, row by row. */
static void lay_out(int64_t n, int64_t tall, const double *matrix, const double *more, double *l)
{
    memset(l, 0, sizeof(double) * tall * tall);
    for (int64_t j = 0; j < n; j++) {
        memcpy(l + j * tall + j, matrix, sizeof(double) * (n - j));
        l[j * tall + j] += more[j];
        matrix += n - j;
    }
    for (int64_t j = n; j < tall; j++) l[j * tall + j] = 1.0;
}

/* Some rows, from `i` on, of COLUMNS columns of the factor, from `j` on: less the products with the
 * columns before, and with each other. With the rows of the diagonal come its pivots: one over their
 * roots. Return 0 if one of them is not above 0. */
INLINE int tile(const int vectors, int64_t tall, int64_t i, int64_t j, double *l, double *pivots)
{
    vector sum[COLUMNS][VECTORS];
    UNROLL for (int c = 0; c < COLUMNS; c++)
        UNROLL for (int v = 0; v < vectors; v++)
            sum[c][v] = *(vector *)(l + (j + c) * tall + i + v * VECTOR);
    for (int64_t k = 0; k < j; k++)
        UNROLL for (int c = 0; c < COLUMNS; c++)
            UNROLL for (int v = 0; v < vectors; v++)
                sum[c][v] -= l[k * tall + j + c] * *(vector *)(l + k * tall + i + v * VECTOR);
    UNROLL for (int c = 0; c < COLUMNS; c++) {
        double *own = l + (j + c) * tall;
        UNROLL for (int d = 0; d < c; d++)
            UNROLL for (int v = 0; v < vectors; v++)
                sum[c][v] -= l[(j + d) * tall + j + c] * sum[d][v];
        if (i <= j) {
            UNROLL for (int v = 0; v < vectors; v++) *(vector *)(own + i + v * VECTOR) = sum[c][v];
            double pivot = own[j + c];
            if (!(pivot > 0.0)) return 0;
            pivots[j + c] = 1.0 / sqrt(pivot);
        }
        UNROLL for (int v = 0; v < vectors; v++) {
            sum[c][v] *= pivots[j + c];
            *(vector *)(own + i + v * VECTOR) = sum[c][v];
        }
    }
    return 1;
}

/* The factor, in place. Return 0 if the matrix is not positive definite. */
INLINE int factor(int64_t tall, double *l, double *pivots)
{
    for (int64_t j = 0; j < tall; j += COLUMNS)
        for (int64_t i = j / VECTOR * VECTOR; i < tall;) {
            int64_t left = (tall - i) / VECTOR;
            int good = left >= VECTORS ? tile(VECTORS, tall, i, j, l, pivots)
                     : left >= 2       ? tile(2, tall, i, j, l, pivots)
                                       : tile(1, tall, i, j, l, pivots);
            if (!good) return 0;
            i += VECTOR * (left >= VECTORS ? VECTORS : left >= 2 ? 2 : 1);
        }
    return 1;
}

/* From a side to the answer, in place, by the factor. */
INLINE void substitute(int64_t n, int64_t tall, const double *l, const double *pivots, double *x)
{
    for (int64_t j = 0; j < n; j++) { /* forward */
        x[j] *= pivots[j];
        for (int64_t i = j + 1; i < n; i++) x[i] -= x[j] * l[j * tall + i];
    }
    for (int64_t j = n - 1; j >= 0; j--) { /* and back */
        vector sums = {0.0};
        int64_t i = j + 1;
        for (; i + VECTOR <= n; i += VECTOR)
            sums += *(const vector *)(l + j * tall + i) * *(const vector *)(x + i);
        double sum = 0.0;
        for (; i < n; i++) sum += l[j * tall + i] * x[i];
        UNROLL for (int k = 0; k < VECTOR; k++) sum += sums[k];
        x[j] = (x[j] - sum) * pivots[j];
    }
}

/* Numbers of the room that systems of n rows take. */
int64_t pfedfair_room(int64_t n) { return (padded(n) + 1) * padded(n); }

/* Solve (matrix + diag(more[k])) x = sides[k] for every k, in place. All are (systems, n), and the
 * matrix is an upper triangle, row by row. A system whose matrix is not positive definite is named
 * in `failed`, and its side stays as it is. */
FAST void pfedfair_ridges(int64_t systems, int64_t n, const double *matrix, const double *more,
                          double *sides, int64_t *failed, double *room)
{
    int64_t tall = padded(n);
    double *pivots = room + tall * tall;
    for (int64_t k = 0; k < systems; k++) {
        lay_out(n, tall, matrix, more + k * n, room);
        failed[k] = !factor(tall, room, pivots);
        if (!failed[k]) substitute(n, tall, room, pivots, sides + k * n);
    }
}
