/* The inputs of a network from packed cells, see unpack.py.
 *
 * Nothing here knows Python: it is called through ctypes, with memory that PyTorch has made. Inputs
 * are made by the same operations as PyTorch's, so they have the same bits.
 */

#include <stdint.h>
#include <string.h>

/* Compiled for several processors, where the system can choose among them when it is loaded. */
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define FAST __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FAST
#endif

/* What an encoder is, as Python tells it. */
struct encoder {
    int64_t numbers, categories, width; /* columns of a person's cells, and inputs */
    float empty;                        /* the number of an empty cell */
    const int64_t *ramps;  /* where every number's ramps begin, and the end: (numbers + 1) */
    const float *means, *scales; /* of all ramps */
    const int64_t *levels; /* where every category's levels begin among inputs, (categories) */
    const int64_t *many;   /* how many these are */
    const int64_t *flags;  /* where every column's flag of empty cells is; -1 if there is none */
    const float *shares;   /* of the levels, at the places of their inputs */
};

/* The number of this interface: an older library beside newer Python is not used. */
int64_t pfedfair_interface(void) { return 2; }

/* Cells (n, numbers + categories) to inputs (n, width). */
FAST void pfedfair_unpack(const struct encoder *e, int64_t n, const float *cells, float *inputs)
{
    int64_t ramps = e->ramps[e->numbers], columns = e->numbers + e->categories;
    for (int64_t i = 0; i < n; i++, cells += columns, inputs += e->width) {
        for (int64_t c = 0; c < e->numbers; c++) {
            int64_t first = e->ramps[c], many = e->ramps[c + 1] - first;
            const float *mean = e->means + first, *scale = e->scales + first;
            float cell = cells[c], *to = inputs + first;
            if (cell == e->empty)
                memset(to, 0, sizeof(float) * many);
            else
                for (int32_t j = 0; j < (int32_t)many; j++) {
                    float part = cell - (float)j;
                    part = part < 0.0f ? 0.0f : part;
                    part = part > 1.0f ? 1.0f : part;
                    to[j] = (part - mean[j]) * scale[j];
                }
        }
        memset(inputs + ramps, 0, sizeof(float) * (e->width - ramps));
        for (int64_t c = 0; c < columns; c++)
            if (cells[c] == e->empty && e->flags[c] >= 0) inputs[e->flags[c]] = 1.0f;
        for (int64_t c = 0; c < e->categories; c++) {
            int64_t first = e->levels[c], many = e->many[c];
            float cell = cells[e->numbers + c], *to = inputs + first;
            if (cell == e->empty || cell >= (float)many)
                memcpy(to, e->shares + first, sizeof(float) * many);
            else if (cell >= 0.0f && cell == (float)(int64_t)cell)
                to[(int64_t)cell] = 1.0f;
        }
    }
}

/* What a cell of a number adds to a score by the weights (width) of inputs: at each knot, one more
 * than it has ramps. Return what an empty cell adds. */
static double knots_of(const struct encoder *e, int64_t c, const float *weights, double *heights)
{
    int64_t first = e->ramps[c], end = e->ramps[c + 1];
    double height = 0.0;
    for (int64_t j = first; j < end; j++)
        height -= (double)e->means[j] * e->scales[j] * weights[j];
    for (int64_t j = first; j < end; j++) {
        *heights++ = height;
        height += (double)e->scales[j] * weights[j];
    }
    *heights = height;
    return e->flags[c] >= 0 ? weights[e->flags[c]] : 0.0;
}

/* What a cell of a category adds: at each level, and behind them for one of no known level, for an
 * empty one, and for what no cell should be. */
static void levels_of(const struct encoder *e, int64_t c, const float *weights, double *heights)
{
    int64_t first = e->levels[c], many = e->many[c], flag = e->flags[e->numbers + c];
    double share = 0.0;
    for (int64_t j = first; j < first + many; j++) {
        *heights++ = weights[j];
        share += (double)e->shares[j] * weights[j];
    }
    heights[0] = share;
    heights[1] = share + (flag >= 0 ? weights[flag] : 0.0);
    heights[2] = 0.0;
}

/* Inputs times weights (outputs, width), to found (n, outputs), from cells: nothing is laid out.
 * Column by column for some people at a time, added up in double precision. Room for width + 3
 * numbers. */
#define PEOPLE 256
FAST void pfedfair_times(const struct encoder *e, int64_t n, const float *cells, int64_t outputs,
                         const float *weights, float *found, double *room)
{
    int64_t columns = e->numbers + e->categories;
    for (int64_t o = 0; o < outputs; o++, weights += e->width)
        for (int64_t start = 0; start < n; start += PEOPLE) {
            int64_t some = n - start < PEOPLE ? n - start : PEOPLE;
            double sums[PEOPLE] = {0.0};
            for (int64_t c = 0; c < e->numbers; c++) {
                const float *own = cells + start * columns + c;
                int32_t many = (int32_t)(e->ramps[c + 1] - e->ramps[c]), last = many ? many - 1 : 0;
                double empty = knots_of(e, c, weights, room);
                if (!many) room[1] = room[0];
                for (int64_t i = 0; i < some; i++) {
                    float cell = own[i * columns], at = cell > 0.0f ? cell : 0.0f;
                    at = at < (float)many ? at : (float)many;
                    int32_t low = (int32_t)at;
                    low = low < last ? low : last;
                    double height = room[low] + (at - (float)low) * (room[low + 1] - room[low]);
                    sums[i] += cell == e->empty ? empty : height;
                }
            }
            for (int64_t c = 0; c < e->categories; c++) {
                const float *own = cells + start * columns + e->numbers + c;
                int32_t many = (int32_t)e->many[c];
                levels_of(e, c, weights, room);
                for (int64_t i = 0; i < some; i++) {
                    float cell = own[i * columns], at = cell > 0.0f ? cell : 0.0f;
                    at = at < (float)many ? at : (float)many;
                    int32_t low = (int32_t)at;
                    int32_t level = low == many || (float)low == cell ? low : many + 2;
                    sums[i] += room[cell == e->empty ? many + 1 : level];
                }
            }
            for (int64_t i = 0; i < some; i++) found[(start + i) * outputs + o] = (float)sums[i];
        }
}
