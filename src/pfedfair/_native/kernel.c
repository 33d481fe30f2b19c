/* The pass forth and the pass back of a stack of perceptrons with ReLU, see kernel.py.
 *
 * Nothing here knows Python: it is called through ctypes, with memory that PyTorch has made. What
 * the processor can do is looked up when it is called, so a library may move to another machine.
 * One thread, and the same order of additions for a model wherever it stands in the stack.
 */

#include <math.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <stdint.h>
#include <string.h>

#define LINE 16 /* rows of matrices in the room take a multiple of so many floats */
#define FEW 4   /* outputs */
#define MOST 16 /* layers */
#define MOST_NARROW 128 /* rows of so few columns that stay in the first cache */
#define WIDE 128 /* columns of a product from which on zeros of several rows are passed over */

#define SOME 128 /* people at a time whose bits are turned, see bits.h */

#define INLINE static inline __attribute__((always_inline))
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#define SHUFFLE(mask, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define UNROLL _Pragma("GCC unroll 16")
#define SHUFFLE(mask, a, b, ...) __builtin_shuffle(a, b, (mask){__VA_ARGS__})
#endif

#define IN_LINE __attribute__((aligned(64))) /* with the lines of the cache */

struct shape {
    int64_t one; /* whether it has one output, and hidden layers of up to 64 units, see bits.h */
    int64_t n, people; /* people of a model, and room for them */
    int64_t layers, widest;
    int64_t weights; /* floats that the weights of a layer take, padded */
    int64_t places;  /* numbers that lists of places may take, see kernel.h */
    int64_t widths[MOST + 1]; /* the inputs, every layer's outputs */
};

/* What a stack is, as Python tells it. */
struct plan {
    int64_t kind; /* of vectors: at most `pfedfair_best()` */
    int64_t models, n, features;
    int64_t groups; /* S is 0: no input; 2: one more; else one for each group */
    int64_t layers;
    int64_t widths[MOST + 1];
    float *room; /* `pfedfair_room` floats */
    float *logits;
};

/* How a model goes down: the people of every step, and what becomes of a gradient. */
struct descent {
    int64_t steps;
    const float *const *x; /* of every step: the first model's first person */
    const int64_t *const *s;
    const float *const *y, *const *weight;
    const int64_t *const *rows; /* if these are not 0, people's places in x, s and y */
    int64_t x_model, x_person, s_model, y_model, weight_model, rows_model; /* to the next */
    int64_t adam, made; /* whether it is Adam, and how many steps were made before */
    double lr, ridge, beta1, beta2, eps;
    float *m, *v; /* Adam's moments, which lie as the models do */
    double gamma; /* how strongly models are drawn to `centre`, which has a row for each or one */
    const float *centre;
    int64_t centre_model;
};

/* The number of this interface: an older library beside newer Python is not used. */
int64_t pfedfair_interface(void) { return 3; }

#if defined(__x86_64__)

INLINE int64_t padded(int64_t width) { return (width + LINE - 1) / LINE * LINE; }

/* Whether no vector that is read from here lies across two lines of the cache. */
INLINE int in_line(const float *from) { return (uintptr_t)from % (LINE * sizeof(float)) == 0; }

/* Copy numbers, and zeros behind them. */
INLINE void fill(float *to, int64_t row, const float *from, int64_t width)
{
    if (width) memcpy(to, from, sizeof(float) * width);
    memset(to + width, 0, sizeof(float) * (row - width));
}

/* Which units of a layer say something to somebody. Of those that do not, all outputs are 0: what
 * they are multiplied with is nothing, and so is their slope. */
struct units {
    int64_t count, all;
    int64_t seldom; /* whether their outputs have many zeros; with `one` output only */
    int32_t number[]; /* of each, if not all are meant */
};

/* Floats that a hidden layer takes: the outputs, its units behind them, and people's bits. */
INLINE int64_t block(const struct shape *shape, int64_t layer)
{
    int64_t width = padded(shape->widths[layer]);
    int64_t units = padded(sizeof(struct units) / sizeof(float)) + width;
    return shape->people * (width + 2) + units;
}

INLINE struct units *units_of(const struct shape *shape, int64_t layer, float *outputs)
{
    return (struct units *)(outputs + shape->people * padded(shape->widths[layer]));
}

INLINE uint64_t *bits_of(const struct shape *shape, int64_t layer, float *outputs)
{
    return (uint64_t *)(outputs + block(shape, layer)) - shape->people;
}

/* to[i][j] = from[rows[i]][columns[j]], where no list means all of them in order; rows of `to` are
 * padded with zeros. `to` may be `from`: nothing moves to a place that is still to be read. */
static void gather(int64_t height, const int32_t *rows, int64_t width, const int32_t *columns,
                   const float *from, int64_t from_row, float *to)
{
    int64_t to_row = padded(width);
    for (int64_t i = 0; i < height; i++, to += to_row) {
        const float *one = from + (rows ? rows[i] : i) * from_row;
        if (!columns) {
            fill(to, to_row, one, width);
            continue;
        }
        for (int64_t j = 0; j < width; j++) to[j] = one[columns[j]];
        memset(to + width, 0, sizeof(float) * (to_row - width));
    }
}

/* A layer's weights with rows that can be read to their padded ends: these, or a copy in `room`. */
INLINE const float *rows_of(const float *w, int64_t fan_out, int64_t fan_in, float *room)
{
    if (padded(fan_in) == fan_in) return w;
    gather(fan_out, 0, fan_in, 0, w, fan_in, room);
    return room;
}

/* A layer's gradient from that of the units that are awake. The others' is 0, or no number where
 * a slope is none. */
static void scatter(int64_t fan_out, const struct units *out, int64_t fan_in,
                    const struct units *in, const float *weights, const float *sums, float *grad)
{
    int64_t row = padded(in->count), next = 0;
    float *bias = grad + fan_in * fan_out;
    for (int64_t o = 0; o < fan_out; o++, grad += fan_in) {
        int known = out->all || (next < out->count && out->number[next] == o);
        float rest = known ? sums[next] - sums[next] : 0;
        bias[o] = known ? sums[next] : 0;
        if (known && in->all) {
            memcpy(grad, weights + next * row, sizeof(float) * fan_in);
        } else {
            for (int64_t i = 0; i < fan_in; i++) grad[i] = rest;
            if (known)
                for (int64_t i = 0; i < in->count; i++)
                    grad[in->number[i]] = weights[next * row + i];
        }
        next += known;
    }
}

#define NAME(f) f##_avx2
#define LANES 8
#define ROWS 6
#define COLS 2
#define NARROW 12 /* vectors of a row in `line` */
#define SQRT(v) (V)_mm256_sqrt_ps((__m256)(v))
#define FIRST(some) (__m256i)((M){0, 1, 2, 3, 4, 5, 6, 7} < (int32_t)(some))
#define READ(from, some) (V)_mm256_maskload_ps(from, FIRST(some))
#define WRITE(to, v, some) _mm256_maskstore_ps(to, FIRST(some), (__m256)(v))
#define MULTIPLY_ADD(a, b, c) (V)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c))
#define BITS(v) \
    (uint64_t)_mm256_movemask_ps(_mm256_cmp_ps((__m256)(v), _mm256_setzero_ps(), _CMP_NEQ_UQ))
#define LOW 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH 4, 12, 5, 13, 6, 14, 7, 15
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
#include "kernel.h"
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#define NAME(f) f##_avx512
#define LANES 16
#define ROWS 6
#define COLS 4
#define NARROW 6
#define SQRT(v) (V)_mm512_sqrt_ps((__m512)(v))
#define READ(from, some) (V)_mm512_maskz_loadu_ps((__mmask16)((1 << (some)) - 1), from)
#define WRITE(to, v, some) _mm512_mask_storeu_ps(to, (__mmask16)((1 << (some)) - 1), (__m512)(v))
#define MULTIPLY_ADD(a, b, c) (V)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c))
#define BITS(v) (uint64_t)_mm512_cmp_ps_mask((__m512)(v), _mm512_setzero_ps(), _CMP_NEQ_UQ)
#define LOW 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f")
#endif
#include "kernel.h"
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

static const struct {
    void (*lay_out)(const struct plan *, const float *x, int64_t x_person, const int64_t *s,
                    const int64_t *rows, float *to);
    void (*forth)(const struct shape *, const float *w, float *in, float *hidden, float *work,
                  float *logits);
    void (*back)(const struct shape *, const float *w, const float *in, float *hidden, float *work,
                 const float *slope, float *grad);
    void (*step)(const struct descent *, int64_t made, int64_t size, float *w, const float *grad,
                 float *m, float *v, const float *centre);
} kinds[] = {{0, 0, 0, 0},
             {lay_out_avx2, forth_avx2, back_avx2, step_avx2},
             {lay_out_avx512, forth_avx512, back_avx512, step_avx512}};

/* The best kind of vectors that this processor has; 0 if PyTorch is as good. */
int64_t pfedfair_best(void)
{
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f")) return 2;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static struct shape shape_of(const struct plan *plan)
{
    struct shape shape = {.n = plan->n, .people = padded(plan->n), .layers = plan->layers};
    memcpy(shape.widths, plan->widths, sizeof(shape.widths));
    shape.one = shape.layers > 1 && shape.widths[shape.layers] == 1;
    for (int64_t layer = 1; layer < shape.layers; layer++)
        if (shape.widths[layer] > 64) shape.one = 0;
    for (int64_t layer = 1; layer < shape.layers; layer++)
        if (padded(shape.widths[layer]) > shape.widest) shape.widest = padded(shape.widths[layer]);
    for (int64_t layer = 0; layer < shape.layers; layer++) {
        int64_t weights = (padded(shape.widths[layer]) + 1) * padded(shape.widths[layer + 1]);
        int64_t places = shape.people * (padded(shape.widths[layer]) + 1);
        if (weights > shape.weights) shape.weights = weights;
        if (places > shape.places) shape.places = places;
    }
    return shape;
}

/* Numbers of a model. */
static int64_t size_of(const struct shape *shape)
{
    int64_t size = 0;
    for (int64_t layer = 0; layer < shape->layers; layer++)
        size += (shape->widths[layer] + 1) * shape->widths[layer + 1];
    return size;
}

/* Where things are in the room: every model's inputs, every model's hidden layers, then work space,
 * where weights are put together, and turned, and slopes are kept from one layer to the next. */
struct places {
    int64_t input, hidden; /* floats of one model */
    int64_t hiddens, work, grad, w, labels, end; /* a gradient, a model, labels: for `descend` */
};

static struct places places_of(const struct plan *plan, const struct shape *shape)
{
    struct places at = {.input = shape->people * padded(shape->widths[0])};
    for (int64_t layer = 1; layer < shape->layers; layer++) at.hidden += block(shape, layer);
    at.hiddens = plan->models * at.input;
    at.work = at.hiddens + plan->models * at.hidden;
    at.grad = at.work + 2 * shape->weights + 3 * shape->people * shape->widest + shape->places;
    at.w = at.grad + padded(size_of(shape));
    at.labels = at.w + padded(size_of(shape));
    at.end = at.labels + shape->n;
    return at;
}

/* Floats of the room that a stack needs. */
int64_t pfedfair_room(const struct plan *plan)
{
    struct shape shape = shape_of(plan);
    return places_of(plan, &shape).end;
}

/* Everybody's inputs into the room. */
void pfedfair_lay_out(const struct plan *plan, const float *x, int64_t x_model, int64_t x_person,
                      const int64_t *s, int64_t s_model)
{
    struct shape shape = shape_of(plan);
    int64_t input = places_of(plan, &shape).input;
    for (int64_t i = 0; i < plan->models; i++)
        kinds[plan->kind].lay_out(plan, x + i * x_model, x_person, s + i * s_model, 0,
                                  plan->room + i * input);
}

/* The logits of every model on its own people. */
void pfedfair_forth(const struct plan *plan, const float *w, int64_t w_row)
{
    struct shape shape = shape_of(plan);
    struct places at = places_of(plan, &shape);
    int64_t outputs = plan->n * shape.widths[shape.layers];
    for (int64_t i = 0; i < plan->models; i++)
        kinds[plan->kind].forth(&shape, w + i * w_row, plan->room + i * at.input,
                                plan->room + at.hiddens + i * at.hidden, plan->room + at.work,
                                plan->logits + i * outputs);
}

/* From d(loss)/d(logits) to d(loss)/d(w), after the pass forth. */
void pfedfair_back(const struct plan *plan, const float *w, int64_t w_row, const float *slope,
                   float *grad, int64_t grad_row)
{
    struct shape shape = shape_of(plan);
    struct places at = places_of(plan, &shape);
    int64_t outputs = plan->n * shape.widths[shape.layers];
    for (int64_t i = 0; i < plan->models; i++)
        kinds[plan->kind].back(&shape, w + i * w_row, plan->room + i * at.input,
                               plan->room + at.hiddens + i * at.hidden, plan->room + at.work,
                               slope + i * outputs, grad + i * grad_row);
}

/* Both passes of a model for the mean cross-entropy of one output. */
INLINE void both(const struct plan *plan, const struct shape *shape, const struct places *at,
                 const float *w, float *in, const float *y, const float *weight, float *z,
                 float *grad)
{
    float *hidden = plan->room + at->hiddens, *work = plan->room + at->work;
    kinds[plan->kind].forth(shape, w, in, hidden, work, z);
    for (int64_t k = 0; k < plan->n; k++) z[k] = (1 / (1 + expf(-z[k])) - y[k]) * weight[k];
    kinds[plan->kind].back(shape, w, in, hidden, work, z, grad);
}

/* The same for every model, one after the other while all is at hand. */
void pfedfair_both(const struct plan *plan, const float *w, int64_t w_row, const float *y,
                   int64_t y_model, const float *weight, int64_t weight_model, float *grad,
                   int64_t grad_row)
{
    struct shape shape = shape_of(plan);
    struct places at = places_of(plan, &shape);
    for (int64_t i = 0; i < plan->models; i++)
        both(plan, &shape, &at, w + i * w_row, plan->room + i * at.input, y + i * y_model,
             weight + i * weight_model, plan->logits + i * plan->n, grad + i * grad_row);
}

/* All steps of one model, in place. */
INLINE void steps(const struct plan *plan, const struct shape *shape, const struct places *at,
                  const struct descent *d, int64_t i, int64_t size, float *w, float *m, float *v)
{
    float *in = plan->room, *grad = plan->room + at->grad, *labels = plan->room + at->labels;
    const float *centre = d->centre ? d->centre + i * d->centre_model : 0;
    for (int64_t k = 0; k < d->steps; k++) {
        const int64_t *rows = d->rows[k] ? d->rows[k] + i * d->rows_model : 0;
        const float *y = d->y[k] + i * d->y_model;
        if (!k || d->x[k] != d->x[k - 1] || d->s[k] != d->s[k - 1] || d->rows[k] != d->rows[k - 1])
            kinds[plan->kind].lay_out(plan, d->x[k] + i * d->x_model, d->x_person,
                                      d->s[k] + i * d->s_model, rows, in);
        for (int64_t q = 0; rows && q < plan->n; q++) labels[q] = y[rows[q]];
        both(plan, shape, at, w, in, rows ? labels : y, d->weight[k] + i * d->weight_model,
             plan->logits, grad);
        kinds[plan->kind].step(d, d->made + k, size, w, grad, m, v, centre);
    }
}

/* All steps of some models on the mean cross-entropy of one output. The plan is for one model:
 * its room stays in the cache. Of many steps the model is there, too, in line with the cache. */
void pfedfair_descend(const struct plan *plan, const struct descent *d, int64_t first, int64_t last,
                      float *w, int64_t w_row)
{
    struct shape shape = shape_of(plan);
    struct places at = places_of(plan, &shape);
    int64_t size = size_of(&shape);
    for (int64_t i = first; i < last; i++) {
        float *own = w + i * w_row, *m = d->m ? d->m + i * w_row : 0, *v = d->v ? d->v + i * w_row : 0;
        float *near = d->steps > 1 && !in_line(own) ? plan->room + at.w : own;
        if (near != own) memcpy(near, own, sizeof(float) * size);
        steps(plan, &shape, &at, d, i, size, near, m, v);
        if (near != own) memcpy(own, near, sizeof(float) * size);
    }
}

#else

int64_t pfedfair_best(void) { return 0; }

#endif
