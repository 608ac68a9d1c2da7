// Sums over matchings on the GPU.
//
// Compiled at first use, once per set of macros:
//   DUAL      1: dual numbers, x + e dx with e^2 = 0, so that every sum comes with its
//             derivative along one direction of the scores; 0: plain numbers
//   KERNELS   which kernels: 1 `scale` and those of many columns, 2 those of few, 3 `glynn`
//   K         columns, of `subsets` and `perfect`
//   M, C, G   nodes per side, columns of a thread and threads of a sign pattern, of `glynn`
//
// All problems of a batch have n rows (left nodes) and k columns (right nodes).  Weights are
// scaled by `scale`:
//
//   weight_ij = exp(score_ij - a_i - b_j)   left_i = exp(u_i - a_i)   right_j = exp(v_j - b_j)
//
// with u and v the scores of staying unmatched.  This divides the sum over all matchings by
// exp(sum a + sum b).  A direction of the scores makes the weight w the dual number
// w + e w direction.

#if DUAL
struct Real {
  double v, d;
};
__device__ __forceinline__ Real real(double v, double d) { return Real{v, d}; }
__device__ __forceinline__ Real operator+(Real a, Real b) { return {a.v + b.v, a.d + b.d}; }
__device__ __forceinline__ Real operator-(Real a, Real b) { return {a.v - b.v, a.d - b.d}; }
__device__ __forceinline__ Real operator*(Real a, Real b) {
  return {a.v * b.v, fma(a.v, b.d, a.d * b.v)};
}
__device__ __forceinline__ Real operator*(double a, Real b) { return {a * b.v, a * b.d}; }
__device__ __forceinline__ Real operator/(Real a, Real b) {
  double v = a.v / b.v;
  return {v, (a.d - v * b.d) / b.v};
}
// c + a b
__device__ __forceinline__ Real multiply_add(Real a, Real b, Real c) {
  return {fma(a.v, b.v, c.v), fma(a.v, b.d, fma(a.d, b.v, c.d))};
}
__device__ __forceinline__ Real multiply_subtract(Real a, Real b, Real c) {
  return {fma(-a.v, b.v, c.v), fma(-a.v, b.d, fma(-a.d, b.v, c.d))};
}
__device__ __forceinline__ double value(Real a) { return a.v; }
__device__ __forceinline__ double told(Real a) { return a.d; }
__device__ __forceinline__ Real shuffle_xor(Real a, int mask) {
  return {__shfl_xor_sync(0xffffffffu, a.v, mask), __shfl_xor_sync(0xffffffffu, a.d, mask)};
}
#else
typedef double Real;
__device__ __forceinline__ Real real(double v, double d) { return v; }
__device__ __forceinline__ Real multiply_add(Real a, Real b, Real c) { return fma(a, b, c); }
__device__ __forceinline__ Real multiply_subtract(Real a, Real b, Real c) {
  return fma(-a, b, c);
}
__device__ __forceinline__ double value(Real a) { return a; }
__device__ __forceinline__ double told(Real a) { return a; }
__device__ __forceinline__ Real shuffle_xor(Real a, int mask) {
  return __shfl_xor_sync(0xffffffffu, a, mask);
}
#endif

// What is told of a graph: its sum, or with `offsets` the logarithm, and how good it is.
struct Told {
  double* sums;
  double* residuals;        // 0 for sums of positive numbers that are not too small
  const double* offsets;    // what scaling took off the logarithm; null: none
  __device__ __forceinline__ void tell(long long graph, Real total, double residual,
                                       double log_factor) const {
    double sum = value(total);
#if DUAL
    sums[graph] = told(total) / sum;
#else
    sums[graph] = offsets ? log(sum) + log_factor + offsets[graph] : sum;
#endif
    residuals[graph] = sum > 0.0 && residual <= 1e300 ? residual : INFINITY;  // NaN too
  }
};

// A probability, with what rounding puts outside of [0, 1] taken off; its derivative as is.
__device__ __forceinline__ double likely(Real p) {
#if DUAL
  return told(p);
#else
  return fmin(fmax(p, 0.0), 1.0) + 0.0;  // the sum turns -0.0 into 0.0
#endif
}

// Sums of positive numbers below this may have lost what underflows.
#define TINY 1e-200
__device__ __forceinline__ double doubt(Real total) {
  return value(total) > TINY ? 0.0 : INFINITY;
}

// A weight and its derivative along the direction (null: none).
__device__ __forceinline__ Real weigh(const double* weights, const double* directions,
                                      long long at) {
  double weight = weights[at];
  return real(weight, directions && weight > 0.0 ? weight * directions[at] : 0.0);
}

// The score of staying unmatched (null: all nodes must be matched).
__device__ __forceinline__ double free_score(const double* scores, long long at) {
  return scores ? scores[at] : -INFINITY;
}

// Adds `x` over the threads of a warp; all threads get the same sum.
__device__ __forceinline__ Real warp_sum(Real x) {
  for (int mask = 16; mask; mask >>= 1) x = x + shuffle_xor(x, mask);
  return x;
}

// The sum over a block of whole warps, in a fixed order; `room` holds one entry per warp.
__device__ __forceinline__ Real block_sum(Real x, Real* room) {
  x = warp_sum(x);
  int n_warps = blockDim.x / 32;
  if (n_warps == 1) return x;
  __syncthreads();
  if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = x;
  __syncthreads();
  Real total = room[0];
  for (int w = 1; w < n_warps; ++w) total = total + room[w];
  return total;
}

#if KERNELS == 1 && !DUAL

// tau log(exp(free / tau) + sum_e exp((line_e - shift_e) / tau)) by `width` threads of a
// warp, a power of two; all of them get it.
__device__ __forceinline__ double log_sum(const double* line, long long stride, int n,
                                          const double* shift, double free, double tau,
                                          int width) {
  int sub = threadIdx.x % width;
  double per = 1.0 / tau, most = free * per, total = 0.0;
  for (int e = sub; e < n; e += width) most = fmax(most, (line[e * stride] - shift[e]) * per);
  for (int mask = 1; mask < width; mask <<= 1)
    most = fmax(most, __shfl_xor_sync(0xffffffffu, most, mask));
  most = most > -INFINITY ? most : 0.0;
  for (int e = sub; e < n; e += width) total += exp((line[e * stride] - shift[e]) * per - most);
  for (int mask = 1; mask < width; mask <<= 1)
    total += __shfl_xor_sync(0xffffffffu, total, mask);
  if (free > -INFINITY) total += exp(free * per - most);
  return tau * (most + log(total));
}

// Sinkhorn's scaling with slack: alternately a_i = log(exp(u_i) + sum_j exp(s_ij - b_j)) and
// the same for b_j, at temperatures that fall to 1, until a moves by less than `tol` or
// `most` sweeps are done.  `width` threads share a row or a column.  Any a and b leave the
// distribution as it is; good ones keep the sums near 1.  Strides are those of the scores.
// Without u and v all nodes must be matched.  Dynamic shared memory: n + k doubles.
extern "C" __global__ void scale(const double* __restrict__ scores, long long graph_stride,
                                 long long row_stride, long long column_stride,
                                 const double* __restrict__ u, const double* __restrict__ v,
                                 int n, int k, int width, int most, double tol,
                                 double* weights, double* left, double* right,
                                 double* offsets) {
  extern __shared__ double room[];
  __shared__ double partial[64];
  double *a = room, *b = room + n;
  long long graph = blockIdx.x;
  const double* s = scores + graph * graph_stride;
  int own = threadIdx.x / width, step = blockDim.x / width;
  bool is_first = threadIdx.x % width == 0;
  // The spread of the allowed scores decides where the temperature begins.
  double low = INFINITY, high = -INFINITY;
  for (int e = threadIdx.x; e < n * k; e += blockDim.x) {
    double x = s[e / k * row_stride + e % k * column_stride];
    if (x > -INFINITY) {
      low = fmin(low, x);
      high = fmax(high, x);
    }
  }
  for (int mask = 16; mask; mask >>= 1) {
    low = fmin(low, __shfl_xor_sync(0xffffffffu, low, mask));
    high = fmax(high, __shfl_xor_sync(0xffffffffu, high, mask));
  }
  if (threadIdx.x % 32 == 0) {
    partial[threadIdx.x / 32] = low;
    partial[32 + threadIdx.x / 32] = high;
  }
  for (int j = threadIdx.x; j < k; j += blockDim.x) b[j] = 0.0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) a[i] = 0.0;
  __syncthreads();
  for (int w = 0; w < blockDim.x / 32; ++w) {
    low = fmin(low, partial[w]);
    high = fmax(high, partial[32 + w]);
  }
  double tau = high > low && most > 1 ? fmax(1.0, 0.25 * (high - low)) : 1.0;
  for (int sweep = 0; sweep < most; ++sweep) {
    double moved = 0.0;
    for (int i0 = 0; i0 < n; i0 += step) {
      int i = min(i0 + own, n - 1);
      double free = free_score(u, graph * n + i);
      double found = log_sum(s + i * row_stride, column_stride, k, b, free, tau, width);
      moved = fmax(moved, fabs(found - a[i]));
      __syncwarp();
      if (is_first && i0 + own < n) a[i] = found;
    }
    __syncthreads();
    for (int j0 = 0; j0 < k; j0 += step) {
      int j = min(j0 + own, k - 1);
      double free = free_score(v, graph * k + j);
      double found = log_sum(s + j * column_stride, row_stride, n, a, free, tau, width);
      if (is_first && j0 + own < k) b[j] = found;
    }
    for (int mask = 16; mask; mask >>= 1)
      moved = fmax(moved, __shfl_xor_sync(0xffffffffu, moved, mask));
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = moved;
    __syncthreads();
    for (int w = 0; w < blockDim.x / 32; ++w) moved = fmax(moved, partial[w]);
    __syncthreads();
    if (tau == 1.0 && moved < tol) break;
    tau = fmax(1.0, 0.5 * tau);
  }
  for (int e = threadIdx.x; e < n * k; e += blockDim.x) {
    int i = e / k, j = e % k;
    weights[graph * n * k + e] = exp(s[i * row_stride + j * column_stride] - a[i] - b[j]);
  }
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    left[graph * n + i] = exp(free_score(u, graph * n + i) - a[i]);
  for (int j = threadIdx.x; j < k; j += blockDim.x)
    right[graph * k + j] = exp(free_score(v, graph * k + j) - b[j]);
  if (threadIdx.x == 0) {
    double total = 0.0;
    for (int i = 0; i < n; ++i) total += a[i];
    for (int j = 0; j < k; ++j) total += b[j];
    offsets[graph] = total;
  }
}

#endif

#if KERNELS == 2

#define STATES (1 << K)
#define PADDED (K < 8 ? 8 : 16)  // numbers that are added up over threads together, for K + 1

// Halves N numbers until thread t has number t % N, added over the threads seen so far.
template <int N>
__device__ __forceinline__ void halve(Real* x) {
  if constexpr (N > 1) {
    constexpr int half = N / 2;
    bool is_upper = threadIdx.x & half;
#pragma unroll
    for (int i = 0; i < half; ++i) {
      Real kept = is_upper ? x[i + half] : x[i];
      x[i] = kept + shuffle_xor(is_upper ? x[i] : x[i + half], half);
    }
    halve<half>(x);
  }
}

// Adds N numbers over the threads of a warp, N a power of two: thread t gets number t % N.
template <int N>
__device__ __forceinline__ Real fold(Real* x) {
  halve<N>(x);
#pragma unroll
  for (int mask = N; mask < 32; mask <<= 1) x[0] = x[0] + shuffle_xor(x[0], mask);
  return x[0];
}

// The same over a block; the threads t < N of the first warp get number t.
__device__ __forceinline__ Real fold_block(Real* x, Real* room) {
  Real sum = fold<PADDED>(x);
  int n_warps = blockDim.x / 32, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (n_warps == 1) return sum;
  __syncthreads();
  if (lane < PADDED) room[warp * PADDED + lane] = sum;
  __syncthreads();
  sum = room[lane % PADDED];
  for (int w = 1; w < n_warps; ++w) sum = sum + room[w * PADDED + lane % PADDED];
  return sum;
}

// Sums over sets of matched columns, for at most ten columns and any number of rows.  Rows
// are taken in turn; the state is the set of columns that have a partner:
//
//   forward_{i+1}[x] = left_i forward_i[x] + sum_{j in x} weight_ij forward_i[x - j]
//   backward_i[x]    = left_i backward_{i+1}[x] + sum_{j not in x} weight_ij backward_{i+1}[x + j]
//   backward_n[x]    = product of right_j over j not in x
//
// and an edge carries weight_ij sum_x forward_i[x] backward_{i+1}[x + j].  Nothing cancels.
// One block per graph; shared memory: two sets of tables, then the forward tables unless
// `tables` has room for them.
extern "C" __global__ void subsets(const double* __restrict__ weights,
                                   const double* __restrict__ left,
                                   const double* __restrict__ right,
                                   const double* __restrict__ d_scores,
                                   const double* __restrict__ d_left,
                                   const double* __restrict__ d_right, int n, Real* tables,
                                   Told out, double* marginals, double* alone_left,
                                   double* alone_right) {
  extern __shared__ Real shared[];
  __shared__ Real room[8 * PADDED];
  __shared__ Real shared_total;
  long long graph = blockIdx.x;
  Real* forward = tables ? tables + graph * (n + 1) * STATES : shared + 2 * STATES;
  long long at = graph * n * K;
  for (int x = threadIdx.x; x < STATES; x += blockDim.x) forward[x] = real(x == 0, 0.0);
  __syncthreads();
  for (int i = 0; i < n; ++i) {
    const Real* before = forward + i * STATES;
    Real* after = forward + (i + 1) * STATES;
    Real w[K], stay = weigh(left, d_left, graph * n + i);
#pragma unroll
    for (int j = 0; j < K; ++j) w[j] = weigh(weights, d_scores, at + i * K + j);
    for (int x = threadIdx.x; x < STATES; x += blockDim.x) {
      Real sum = stay * before[x];
#pragma unroll
      for (int j = 0; j < K; ++j)
        if (x >> j & 1) sum = multiply_add(w[j], before[x ^ 1 << j], sum);
      after[x] = sum;
    }
    __syncthreads();
  }
  Real* next = shared;
  Real* here = shared + STATES;
  Real flow[PADDED];
#pragma unroll
  for (int j = 0; j < PADDED; ++j) flow[j] = real(0.0, 0.0);
  for (int x = threadIdx.x; x < STATES; x += blockDim.x) {
    Real product = real(1.0, 0.0);
#pragma unroll
    for (int j = 0; j < K; ++j)
      if (!(x >> j & 1)) product = product * weigh(right, d_right, graph * K + j);
    next[x] = product;
    Real all = forward[n * STATES + x] * product;
    flow[K] = flow[K] + all;
#pragma unroll
    for (int j = 0; j < K; ++j)
      if (!(x >> j & 1)) flow[j] = flow[j] + all;
  }
  Real alone = fold_block(flow, room);
  if (threadIdx.x == K) {
    shared_total = alone;
    out.tell(graph, alone, doubt(alone), 0.0);
  }
  __syncthreads();
  Real total = shared_total;
  if (threadIdx.x < K) alone_right[graph * K + threadIdx.x] = likely(alone / total);
  for (int i = n - 1; i >= 0; --i) {
    const Real* before = forward + i * STATES;
    Real w[K], stay = weigh(left, d_left, graph * n + i);
#pragma unroll
    for (int j = 0; j < K; ++j) w[j] = weigh(weights, d_scores, at + i * K + j);
#pragma unroll
    for (int j = 0; j < PADDED; ++j) flow[j] = real(0.0, 0.0);
    for (int x = threadIdx.x; x < STATES; x += blockDim.x) {
      Real mass = before[x], sum = stay * next[x];
      flow[K] = multiply_add(mass, next[x], flow[K]);
#pragma unroll
      for (int j = 0; j < K; ++j)
        if (!(x >> j & 1)) {
          Real beyond = next[x | 1 << j];
          sum = multiply_add(w[j], beyond, sum);
          flow[j] = multiply_add(mass, beyond, flow[j]);
        }
      here[x] = sum;
    }
    Real sum = fold_block(flow, room) / total;
    if (threadIdx.x < K) {
      Real own = weigh(weights, d_scores, at + i * K + threadIdx.x);
      marginals[at + i * K + threadIdx.x] = likely(own * sum);
    } else if (threadIdx.x == K) {
      alone_left[graph * n + i] = likely(stay * sum);
    }
    __syncthreads();
    Real* other = next;
    next = here;
    here = other;
  }
}

#if K <= 8 && !DUAL

#define THREADS 32

__host__ __device__ constexpr int bits_of(int x) { return x ? (x & 1) + bits_of(x >> 1) : 0; }

// The sets of I + 1 columns, from those of I.  Tables are volatile: their numbers would not
// fit into registers, where the compiler would try to keep them.
template <int I>
__device__ __forceinline__ void add_row(volatile double* table, const double* w) {
#pragma unroll
  for (int x = 0; x < STATES; ++x)
    if (bits_of(x) == I + 1) {
      double sum = 0.0;
#pragma unroll
      for (int j = 0; j < K; ++j)
        if (x >> j & 1) sum = fma(w[j], table[(x ^ 1 << j) * THREADS], sum);
      table[x * THREADS] = sum;
    }
}

// The same backwards, in the place of the sums forwards, which are not needed any more.
template <int I>
__device__ __forceinline__ void undo_row(volatile double* table, const double* w, double* flow) {
#pragma unroll
  for (int j = 0; j < K; ++j) flow[j] = 0.0;
#pragma unroll
  for (int x = 0; x < STATES; ++x)
    if (bits_of(x) == I) {
      double mass = table[x * THREADS], sum = 0.0;
#pragma unroll
      for (int j = 0; j < K; ++j)
        if (!(x >> j & 1)) {
          double beyond = table[(x | 1 << j) * THREADS];
          sum = fma(w[j], beyond, sum);
          flow[j] = fma(mass, beyond, flow[j]);
        }
      table[x * THREADS] = sum;
    }
}

template <int I>
__device__ __forceinline__ void add_rows(volatile double* table, double (*w)[K]) {
  if constexpr (I < K) {
    add_row<I>(table, w[I]);
    add_rows<I + 1>(table, w);
  }
}

template <int I>
__device__ __forceinline__ void undo_rows(volatile double* table, double (*w)[K], double per,
                                          double* marginals) {
  if constexpr (I >= 0) {
    double flow[K];
    undo_row<I>(table, w[I], flow);
#pragma unroll
    for (int j = 0; j < K; ++j) marginals[I * K + j] = likely(w[I][j] * flow[j] * per);
    undo_rows<I - 1>(table, w, per, marginals);
  }
}

// Squares of at most eight nodes that are all matched: a thread per graph.  The scores are
// scaled by one sweep of rows and columns, in registers; the sums over sets of columns lie
// in shared memory, set by set, so that threads never wait for each other's banks.
// Where a node may stay unmatched after all, the residual is infinite.
// Dynamic shared memory: STATES * THREADS doubles.
extern "C" __global__ void __launch_bounds__(THREADS)
    small(const double* __restrict__ scores, long long graph_stride, long long row_stride,
          long long column_stride, const double* __restrict__ u, const double* __restrict__ v,
          long long n_graphs, Told out, double* marginals, double* alone_left,
          double* alone_right) {
  extern __shared__ double tables[];
  long long graph = (long long)blockIdx.x * THREADS + threadIdx.x;
  if (graph >= n_graphs) return;
  volatile double* table = tables + threadIdx.x;
  const double* s = scores + graph * graph_stride;
  double w[K][K], shift = 0.0;
#pragma unroll
  for (int i = 0; i < K; ++i) {
    double most = -INFINITY, sum = 0.0;
#pragma unroll
    for (int j = 0; j < K; ++j) {
      w[i][j] = s[i * row_stride + j * column_stride];
      most = fmax(most, w[i][j]);
    }
#pragma unroll
    for (int j = 0; j < K; ++j) sum += w[i][j] = exp(w[i][j] - most);
    double per = 1.0 / sum;
#pragma unroll
    for (int j = 0; j < K; ++j) w[i][j] *= per;
    shift += most + log(sum);
  }
  double product = 1.0;
  bool is_free = false;
#pragma unroll
  for (int j = 0; j < K; ++j) {
    double sum = 0.0;
#pragma unroll
    for (int i = 0; i < K; ++i) sum += w[i][j];
    double per = 1.0 / sum;
#pragma unroll
    for (int i = 0; i < K; ++i) w[i][j] *= per;
    product *= sum;  // of at most eight factors, all sums of rows that sum to one
    is_free |= fmax(free_score(u, graph * K + j), free_score(v, graph * K + j)) > -INFINITY;
    alone_left[graph * K + j] = alone_right[graph * K + j] = 0.0;
  }
  table[0] = 1.0;
  add_rows<0>(table, w);
  double total = table[(STATES - 1) * THREADS];
  table[(STATES - 1) * THREADS] = 1.0;
  out.sums[graph] = log(total) + log(product) + shift;
  bool is_good = !is_free && total > TINY && product > TINY;  // false for NaN too
  out.residuals[graph] = is_good ? 0.0 : INFINITY;
  undo_rows<K - 1>(table, w, 1.0 / total, marginals + graph * K * K);
}

#endif

#if K <= 8 && DUAL

// The sets of columns by size: only those of i columns are reached after i rows.
struct Sizes {
  unsigned char sets[STATES];
  short starts[K + 2];
};
__host__ __device__ constexpr Sizes by_size() {
  Sizes found = {};
  int n = 0;
  for (int size = 0; size <= K; ++size) {
    found.starts[size] = n;
    for (int x = 0; x < STATES; ++x) {
      int bits = 0;
      for (int j = 0; j < K; ++j) bits += x >> j & 1;
      if (bits == size) found.sets[n++] = x;
    }
  }
  found.starts[K + 1] = n;
  return found;
}
__device__ const Sizes SIZES = by_size();

// Squares of at most eight nodes that are all matched: a warp per graph, four to a block.
// Where a node may stay unmatched after all, the residual is infinite.
#define PERFECT_WARPS 4
extern "C" __global__ void __launch_bounds__(32 * PERFECT_WARPS)
    perfect(const double* __restrict__ weights, const double* __restrict__ left,
            const double* __restrict__ right, const double* __restrict__ d_scores,
            long long n_graphs, Told out, double* marginals, double* alone_left,
            double* alone_right) {
  __shared__ Real tables[PERFECT_WARPS][2][STATES];
  __shared__ Real square[PERFECT_WARPS][K * K];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  long long graph = (long long)blockIdx.x * PERFECT_WARPS + warp;
  if (graph >= n_graphs) return;
  Real *forward = tables[warp][0], *backward = tables[warp][1], *w = square[warp];
  for (int e = lane; e < K * K; e += 32) w[e] = weigh(weights, d_scores, graph * K * K + e);
  if (lane == 0) {
    forward[0] = real(1.0, 0.0);
    backward[STATES - 1] = real(1.0, 0.0);
  }
  __syncwarp();
  for (int i = 0; i < K; ++i) {
    for (int at = SIZES.starts[i + 1] + lane; at < SIZES.starts[i + 2]; at += 32) {
      int x = SIZES.sets[at];
      Real sum = real(0.0, 0.0);
#pragma unroll
      for (int j = 0; j < K; ++j)
        if (x >> j & 1) sum = multiply_add(w[i * K + j], forward[x ^ 1 << j], sum);
      forward[x] = sum;
    }
    __syncwarp();
  }
  Real total = forward[STATES - 1];
  bool is_free = lane < K && (left[graph * K + lane] > 0.0 || right[graph * K + lane] > 0.0);
  is_free = __any_sync(0xffffffffu, is_free);
  if (lane == 0) out.tell(graph, total, is_free ? INFINITY : doubt(total), 0.0);
  if (lane < K) alone_left[graph * K + lane] = alone_right[graph * K + lane] = 0.0;
  for (int i = K - 1; i >= 0; --i) {
    Real flow[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) flow[j] = real(0.0, 0.0);
    for (int at = SIZES.starts[i] + lane; at < SIZES.starts[i + 1]; at += 32) {
      int x = SIZES.sets[at];
      Real mass = forward[x], sum = real(0.0, 0.0);
#pragma unroll
      for (int j = 0; j < K; ++j)
        if (!(x >> j & 1)) {
          Real beyond = backward[x | 1 << j];
          sum = multiply_add(w[i * K + j], beyond, sum);
          flow[j] = multiply_add(mass, beyond, flow[j]);
        }
      backward[x] = sum;
    }
    Real sum = fold<8>(flow) / total;
    if (lane < K) marginals[(graph * K + i) * K + lane] = likely(w[i * K + lane] * sum);
    __syncwarp();
  }
}

#endif

#endif

#if KERNELS == 1

// The same sums with a launch per row, for more columns: graphs in blockIdx.y, states in
// blockIdx.x.  `forward` holds n + 1 tables per graph, `next` and `here` one each.
extern "C" __global__ void begin_tables(const double* __restrict__ right,
                                        const double* __restrict__ d_right, int n, int k,
                                        Real* forward, Real* next) {
  long long states = 1LL << k, graph = blockIdx.y;
  long long x = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (x >= states) return;
  forward[graph * (n + 1) * states + x] = real(x == 0, 0.0);
  Real product = real(1.0, 0.0);
  for (int j = 0; j < k; ++j)
    if (!(x >> j & 1)) product = product * weigh(right, d_right, graph * k + j);
  next[graph * states + x] = product;
}

extern "C" __global__ void forward_row(const double* __restrict__ weights,
                                       const double* __restrict__ left,
                                       const double* __restrict__ d_scores,
                                       const double* __restrict__ d_left, int n, int k, int i,
                                       Real* forward) {
  long long states = 1LL << k, graph = blockIdx.y;
  long long x = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (x >= states) return;
  const Real* before = forward + (graph * (n + 1) + i) * states;
  Real sum = weigh(left, d_left, graph * n + i) * before[x];
  for (long long rest = x; rest; rest &= rest - 1) {
    int j = __ffsll(rest) - 1;
    Real w = weigh(weights, d_scores, (graph * n + i) * k + j);
    sum = multiply_add(w, before[x ^ 1LL << j], sum);
  }
  forward[(graph * (n + 1) + i + 1) * states + x] = sum;
}

// Row i; every block leaves its sums of flows over edges, then over staying unmatched, in
// `partial` (graphs, blocks, k + 1).  With i = n: the flows of columns that stay unmatched.
extern "C" __global__ void backward_row(const double* __restrict__ weights,
                                        const double* __restrict__ left,
                                        const double* __restrict__ d_scores,
                                        const double* __restrict__ d_left, int n, int k,
                                        int i, const Real* __restrict__ forward,
                                        const Real* __restrict__ next, Real* here,
                                        Real* partial) {
  __shared__ Real room[32];
  long long states = 1LL << k, graph = blockIdx.y;
  long long x = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  bool is_state = x < states;
  Real zero = real(0.0, 0.0), mass = zero, ahead = zero, sum = zero;
  next += graph * states;
  if (is_state) {
    mass = forward[(graph * (n + 1) + i) * states + x];
    ahead = next[x];
    if (i < n) sum = weigh(left, d_left, graph * n + i) * ahead;
  }
  Real* out = partial + (graph * gridDim.x + blockIdx.x) * (k + 1);
  for (int j = 0; j < k; ++j) {
    Real flow = zero;
    if (is_state && !(x >> j & 1)) {
      Real beyond = i < n ? next[x | 1LL << j] : ahead;
      if (i < n)
        sum = multiply_add(weigh(weights, d_scores, (graph * n + i) * k + j), beyond, sum);
      flow = mass * beyond;
    }
    flow = block_sum(flow, room);
    if (threadIdx.x == 0) out[j] = flow;
  }
  Real stays = block_sum(mass * ahead, room);
  if (threadIdx.x == 0) out[k] = stays;
  if (is_state && i < n) here[graph * states + x] = sum;
}

// Sums the blocks' shares of row i, in order: a warp per entry.
extern "C" __global__ void finish_row(const double* __restrict__ weights,
                                      const double* __restrict__ left,
                                      const double* __restrict__ d_scores,
                                      const double* __restrict__ d_left, int n, int k, int i,
                                      int n_blocks, const Real* __restrict__ partial,
                                      Real* totals, Told out, double* marginals,
                                      double* alone_left, double* alone_right) {
  long long graph = blockIdx.y;
  int j = blockIdx.x;
  Real sum = real(0.0, 0.0);
  for (int block = threadIdx.x; block < n_blocks; block += 32)
    sum = sum + partial[(graph * n_blocks + block) * (k + 1) + j];
  sum = warp_sum(sum);
  if (threadIdx.x != 0) return;
  if (i == n) {  // comes first
    if (j == k) {
      totals[graph] = sum;
      out.tell(graph, sum, doubt(sum), 0.0);
    } else {
      totals[gridDim.y + graph * k + j] = sum;  // divided by the total once it is there
    }
    return;
  }
  Real total = totals[graph];
  if (j == k) {
    alone_left[graph * n + i] = likely(weigh(left, d_left, graph * n + i) * sum / total);
    return;
  }
  Real w = weigh(weights, d_scores, (graph * n + i) * k + j);
  marginals[(graph * n + i) * k + j] = likely(w * sum / total);
  if (i == 0)
    alone_right[graph * k + j] = likely(totals[gridDim.y + graph * k + j] / total);
}

#endif

#if KERNELS == 3

// Permanent and first derivatives by Glynn's formula: with signs d, d_0 = +1, and column
// sums s_j(d) = sum_i d_i B_ij,
//
//   per(B)         = 2^(1-M) sum_d (prod d) prod_j s_j(d)
//   d per / d B_ij = 2^(1-M) sum_d (prod d) d_i prod_{l != j} s_l(d)
//
// A warp is a block.  Its threads share the rows as follows:
//
//   row 0              +1
//   rows 1, 2          fast: their four sign patterns are unrolled; `even` and `odd` add up
//                      the products with row 1 at +1 and -1, `second` those signed by row 2
//   n_slow rows        walked in Gray order; a row that flips from sign d adds 2 d times the
//                      sum of all products so far
//   LANE_ROWS rows     all sign patterns side by side in the warp, G threads each
//   the others         fixed by the number of the block
//
// A thread has C of the columns, two at a time; G threads exchange their products.
#define CG (C * G)
#define PAIRS (C / 2)
#define PATTERNS (32 / G)
#define LANE_ROWS (PATTERNS == 32 ? 5 : PATTERNS == 16 ? 4 : PATTERNS == 8 ? 3 : 2)
#define MAX_SLOW 10
// Sums are computed anew when a slow row of this number or above flips: against drift.
#define REFRESH 7

struct Walk {
  Real s[C], even[C], odd[C], second[C];
};

template <int IS_ODD, int SIGN, int SIGN_2>
__device__ __forceinline__ void add_products(Walk& w) {
  Real pair[PAIRS], before[PAIRS];
#pragma unroll
  for (int p = 0; p < PAIRS; ++p) pair[p] = w.s[2 * p] * w.s[2 * p + 1];
  before[0] = real(1.0, 0.0);
#pragma unroll
  for (int p = 1; p < PAIRS; ++p) before[p] = p == 1 ? pair[0] : before[p - 1] * pair[p - 1];
  Real after = real(1.0, 0.0);
#if G > 1
  Real own = PAIRS == 1 ? pair[0] : before[PAIRS - 1] * pair[PAIRS - 1];
  Real other = shuffle_xor(own, 1);
  after = other;
#if G > 2
  own = own * other;
  other = shuffle_xor(own, 2);
  after = after * other;
#endif
#if G > 4
  own = own * other;
  after = after * shuffle_xor(own, 4);
#endif
#endif
#pragma unroll
  for (int p = PAIRS - 1; p >= 0; --p) {
    Real others = p ? before[p] * after : after;
    Real* sums = IS_ODD ? w.odd : w.even;
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      int here = 2 * p + c;
      Real s = w.s[2 * p + 1 - c];
      sums[here] = SIGN > 0 ? multiply_add(others, s, sums[here])
                            : multiply_subtract(others, s, sums[here]);
      w.second[here] = SIGN_2 > 0 ? multiply_add(others, s, w.second[here])
                                  : multiply_subtract(others, s, w.second[here]);
    }
    if (p) after = after * pair[p];
  }
}

template <int SIGN>
__device__ __forceinline__ void flip(Walk& w, const Real* twice) {
#pragma unroll
  for (int c = 0; c < C; ++c) w.s[c] = SIGN > 0 ? w.s[c] + twice[c] : w.s[c] - twice[c];
}

// Flips slow row t, and adds to `acc` what its sign was in.
__device__ __forceinline__ void flip_slow(Walk& w, Real* acc, const Real* rows, int t,
                                          unsigned& slow) {
  double sign = slow >> t & 1 ? -1.0 : 1.0;
  slow ^= 1u << t;
  const Real* twice = rows + (3 + t) * CG;
#pragma unroll
  for (int c = 0; c < C; ++c) {
    acc[c] = acc[c] + (2.0 * sign) * (w.even[c] + w.odd[c]);
    w.s[c] = w.s[c] - sign * twice[c];
  }
}

// Column sums with rows 1 and 2 at +1.
__device__ __forceinline__ void add_rows(Walk& w, const Real* rows, int n_slow, unsigned slow,
                                         unsigned pattern, unsigned long long high) {
#pragma unroll
  for (int c = 0; c < C; ++c)
    w.s[c] = 0.5 * (rows[c] + rows[CG + c] + rows[2 * CG + c]);
  for (int i = 3; i < M; ++i) {
    int t = i - 3, l = t - n_slow, h = l - LANE_ROWS;
    bool is_minus = l < 0 ? slow >> t & 1 : h < 0 ? pattern >> l & 1 : high >> h & 1;
    double half = is_minus ? -0.5 : 0.5;
#pragma unroll
    for (int c = 0; c < C; ++c) w.s[c] = w.s[c] + half * rows[i * CG + c];
  }
}

__device__ __forceinline__ Real sum_patterns(Real x) {
  for (int mask = G; mask < 32; mask <<= 1) x = x + shuffle_xor(x, mask);
  return x;
}

// `partial` (graphs, gridDim.x, M, CG): the derivatives times 2^(M-1), as far as the block
// saw them.
extern "C" __global__ void __launch_bounds__(32)
    glynn(const double* __restrict__ weights, const double* __restrict__ d_scores, int n_slow,
          unsigned long long first, Real* partial) {
  __shared__ __align__(16) Real table[M * CG];  // twice the weights
  long long graph = blockIdx.y;
  for (int e = threadIdx.x; e < M * CG; e += 32) {
    int i = e / CG, j = e % CG;
    // Columns beyond M are 1 in row 0 and 0 elsewhere: their sums are 1.
    Real x = j < M ? weigh(weights, d_scores, (graph * M + i) * M + j) : real(i == 0, 0.0);
    table[e] = 2.0 * x;
  }
  __syncwarp();
  const Real* rows = table + threadIdx.x % G * C;
  unsigned pattern = threadIdx.x / G, slow = 0;
  unsigned long long high = first + blockIdx.x;
  Walk w;
  // The first slow row flips as often as all others together: its sums stay in registers.
  Real first_acc[C], acc[MAX_SLOW - 1][C];
#pragma unroll
  for (int c = 0; c < C; ++c)
    w.even[c] = w.odd[c] = w.second[c] = first_acc[c] = real(0.0, 0.0);
  for (int t = 1; t < n_slow; ++t)
#pragma unroll
    for (int c = 0; c < C; ++c) acc[t - 1][c] = real(0.0, 0.0);
  add_rows(w, rows, n_slow, slow, pattern, high);
  unsigned n_rounds = 1u << (n_slow - 1);
  const Real *row_1 = rows + CG, *row_2 = rows + 2 * CG;
#pragma unroll 1
  for (unsigned round = 1;; ++round) {
    add_products<0, 1, 1>(w);
    flip<-1>(w, row_1);
    add_products<1, -1, -1>(w);
    flip<-1>(w, row_2);
    add_products<1, 1, -1>(w);
    flip<1>(w, row_1);
    add_products<0, -1, 1>(w);
    flip_slow(w, first_acc, rows, 0, slow);
    add_products<0, 1, -1>(w);
    flip<-1>(w, row_1);
    add_products<1, -1, 1>(w);
    flip<1>(w, row_2);
    add_products<1, 1, 1>(w);
    flip<1>(w, row_1);
    add_products<0, -1, -1>(w);
    if (round == n_rounds) break;
    int t = __ffs(round);
    flip_slow(w, acc[t - 1], rows, t, slow);
    if (t >= REFRESH) add_rows(w, rows, n_slow, slow, pattern, high);
  }
  double sign = (__popc(pattern) + __popcll(high)) & 1 ? -1.0 : 1.0;
  Real* out = partial + (graph * gridDim.x + blockIdx.x) * (M * CG) + threadIdx.x % G * C;
  bool writes = pattern == 0;
#pragma unroll
  for (int c = 0; c < C; ++c) {
    Real all = sign * (w.even[c] + w.odd[c]);
    Real first_row = sum_patterns(sign * (w.even[c] - w.odd[c]));
    Real second_row = sum_patterns(sign * w.second[c]);
    Real sum = sum_patterns(all);
    if (writes) {
      out[c] = sum;
      out[CG + c] = first_row;
      out[2 * CG + c] = second_row;
    }
    for (int t = 0; t < n_slow; ++t) {
      Real own = t ? acc[t - 1][c] : first_acc[c];
      Real mine = sign * own + (slow >> t & 1 ? -1.0 : 1.0) * all;
      Real total = sum_patterns(mine);
      if (writes) out[(3 + t) * CG + c] = total;
    }
    for (int l = 0; l < LANE_ROWS; ++l) {
      Real total = sum_patterns((pattern >> l & 1 ? -1.0 : 1.0) * all);
      if (writes) out[(3 + n_slow + l) * CG + c] = total;
    }
    if (writes)
      for (int i = 3 + n_slow + LANE_ROWS; i < M; ++i)
        out[i * CG + c] = (high >> (i - 3 - n_slow - LANE_ROWS) & 1 ? -1.0 : 1.0) * sum;
  }
}

// Adds runs of blocks' derivatives, in order: totals (graphs, gridDim.y, M * CG) grow.
extern "C" __global__ void add_blocks(const Real* __restrict__ partial, int n_blocks,
                                      int per_run, int is_first, Real* totals) {
  int e = blockIdx.x * blockDim.x + threadIdx.x;
  if (e >= M * CG) return;
  long long graph = blockIdx.z, run = blockIdx.y;
  Real sum = real(0.0, 0.0);
  int last = min((int)(run + 1) * per_run, n_blocks);
  for (int block = run * per_run; block < last; ++block)
    sum = sum + partial[(graph * n_blocks + block) * (M * CG) + e];
  Real* out = totals + (graph * gridDim.y + run) * (M * CG) + e;
  *out = is_first ? sum : *out + sum;
}

// Derivatives to permanents (times 2^(M-1)) and marginals.  Every row and column of the
// marginals must sum to one; the residual is the largest deviation, infinite where a node
// may stay unmatched after all.  A block per graph.
extern "C" __global__ void finish(const double* __restrict__ weights,
                                  const double* __restrict__ left,
                                  const double* __restrict__ right,
                                  const double* __restrict__ d_scores,
                                  const Real* __restrict__ totals, int n_runs, Told out,
                                  double* marginals, double* alone_left,
                                  double* alone_right) {
  __shared__ Real flow[M * M];
  __shared__ double deviations[32];
  __shared__ Real room[32];
  long long graph = blockIdx.x;
  Real sum = real(0.0, 0.0);
  for (int e = threadIdx.x; e < M * M; e += blockDim.x) {
    int at = e / M * CG + e % M;
    Real derivative = real(0.0, 0.0);
    for (int run = 0; run < n_runs; ++run)
      derivative = derivative + totals[(graph * n_runs + run) * (M * CG) + at];
    flow[e] = weigh(weights, d_scores, graph * M * M + e) * derivative;
    sum = sum + flow[e];
  }
  // Every row sums to the permanent.
  Real permanent = (1.0 / M) * block_sum(sum, room);
  __syncthreads();
  double worst = 0.0;
  for (int line = threadIdx.x; line < 2 * M; line += blockDim.x) {
    double total = 0.0;
    for (int l = 0; l < M; ++l)
      total += value(flow[line < M ? line * M + l : l * M + line - M]);
    double deviation = fabs(total / value(permanent) - 1.0);
    int node = line % M;
    if (left && (line < M ? left : right)[graph * M + node] > 0.0) deviation = INFINITY;
    if (alone_left) (line < M ? alone_left : alone_right)[graph * M + node] = 0.0;
    if (!(deviation <= worst)) worst = deviation;  // NaN too
  }
  for (int mask = 16; mask; mask >>= 1) {
    double other = __shfl_xor_sync(0xffffffffu, worst, mask);
    if (!(other <= worst)) worst = other;
  }
  if (threadIdx.x % 32 == 0) deviations[threadIdx.x / 32] = worst;
  __syncthreads();
  for (int e = threadIdx.x; e < M * M; e += blockDim.x)
    marginals[graph * M * M + e] = likely(flow[e] / permanent);
  if (threadIdx.x == 0) {
    for (int w = 0; w < blockDim.x / 32; ++w)
      if (!(deviations[w] <= worst)) worst = deviations[w];
    out.tell(graph, permanent, worst, -(M - 1) * 0.693147180559945309417);
  }
}

#endif
