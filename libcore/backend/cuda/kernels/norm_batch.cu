// Batch normalisation. A channel's elements are summed by several teams where channels are few, each about its own
// mean; what they found is put together in one order. Channels that lie last, and matrices, are columns (columns.h).
// Statistics of f16 and bf16 are f32.
#include "libcore/backend/cuda/kernels/columns.h"
#include "libcore/backend/cuda/kernels/nn_elements.h"
#include "libcore/backend/cuda/kernels/tables.h"
#include "libcore/backend/nn_table.h"

namespace core::CORE_KERNELS {
namespace {

/// A channel's elements, counted through the batch, and the parts that they are summed in.
struct Channels {
  std::int64_t channels, plane, count;
  std::int64_t parts, part_size;
  SizeDivider per_plane, per_part;

  explicit Channels(const BatchNormSizes& s)
      : channels(s.channels), plane(s.plane), count(s.batch * s.plane), per_plane(s.plane) {
    constexpr std::int64_t kTeams = 2048, kFewest = 4096;  // teams that fill a GPU; elements worth a team
    parts = larger<std::int64_t>(1, smaller(kTeams / larger<std::int64_t>(1, channels), count / kFewest));
    part_size = divide_up(count, parts);
    per_part = SizeDivider(parts);
  }
  CORE_BODY std::int64_t place(std::int64_t channel, std::int64_t i) const {
    const auto at = per_plane.divide(i);
    return (at.quotient * channels + channel) * plane + at.remainder;
  }
  CORE_BODY std::int64_t end(std::int64_t part) const { return smaller(count, (part + 1) * part_size); }
  std::int64_t lanes() const { return divide_up(part_size, 8); }
};

/// How many, their mean, and the sum of the squares of what is left without it.
template <class W>
struct Moments {
  W count = 0, mean = 0, squares = 0;
};
struct MergeMoments {
  template <class W>
  CORE_BODY Moments<W> operator()(const Moments<W>& a, const Moments<W>& b) const {
    if (a.count == 0) return b;
    if (b.count == 0) return a;
    const W count = a.count + b.count, off = b.mean - a.mean, share = b.count / count;
    return {count, a.mean + off * share, a.squares + b.squares + off * off * a.count * share};
  }
};

template <class T>
CORE_BODY Moments<Computed<T>> moments_of(const Team& team, const Channels& c, const T* in, std::int64_t row) {
  using W = Computed<T>;
  const auto at = c.per_part.divide(row);
  const std::int64_t begin = at.remainder * c.part_size, end = c.end(at.remainder);
  W sum = 0, squares = 0;
  for (std::int64_t i = begin + team.lane(); i < end; i += team.size()) sum += widen(in[c.place(at.quotient, i)]);
  const W count = static_cast<W>(end - begin);
  const W mean = team.reduce(sum, Plus()) / count;
  for (std::int64_t i = begin + team.lane(); i < end; i += team.size()) {
    const W off = widen(in[c.place(at.quotient, i)]) - mean;
    squares += off * off;
  }
  return {count, mean, team.reduce(squares, Plus())};
}

/// Of some of the rows of a column.
template <class T>
struct ColumnMoments {
  const T* in;
  std::int64_t columns;

  CORE_BODY Moments<Computed<T>> operator()(std::int64_t column, std::int64_t begin, std::int64_t end,
                                            std::int64_t step) const {
    using W = Computed<T>;
    if (begin >= end) return {};
    W sum = 0, squares = 0;
    for (std::int64_t row = begin; row < end; row += step) sum += widen(in[row * columns + column]);
    const W count = static_cast<W>((end - begin + step - 1) / step), mean = sum / count;
    for (std::int64_t row = begin; row < end; row += step) {
      const W off = widen(in[row * columns + column]) - mean;
      squares += off * off;
    }
    return {count, mean, squares};
  }
};

template <class T>
void column_stats(const BatchStatsParams& p) {
  using W = Computed<T>;
  auto *mean = static_cast<W*>(p.mean), *var = static_cast<W*>(p.var);
  const ColumnMoments<T> moments{static_cast<const T*>(p.input), p.sizes.channels};
  sum_columns<Moments<W>>(p.sizes.batch, p.sizes.channels, moments, MergeMoments(),
                          [=] CORE_BODY(std::int64_t channel, const Moments<W>& all) {
                            mean[channel] = all.mean;
                            var[channel] = all.squares / all.count;
                          });
}

template <class T>
void batch_stats(const BatchStatsParams& p) {
  using W = Computed<T>;
  if (p.sizes.plane == 1) return column_stats<T>(p);
  const Channels c(p.sizes);
  const auto* in = static_cast<const T*>(p.input);
  auto *mean = static_cast<W*>(p.mean), *var = static_cast<W*>(p.var);
  const Scratch scratch(static_cast<std::size_t>(c.channels * c.parts) * sizeof(Moments<W>));
  auto* found = scratch.as<Moments<W>>();
  for_each_row(c.channels * c.parts, c.lanes(), [=] CORE_BODY(const Team& team, std::int64_t row) {
    const Moments<W> part = moments_of(team, c, in, row);
    if (team.lane() == 0) found[row] = part;
  });
  for_each(c.channels, [=] CORE_BODY(std::int64_t channel) {
    Moments<W> all = found[channel * c.parts];
    for (std::int64_t i = 1; i < c.parts; ++i) all = MergeMoments()(all, found[channel * c.parts + i]);
    mean[channel] = all.mean;
    var[channel] = all.squares / all.count;
  });
}

/// The channel of a position, counted through the batch.
struct ChannelOf {
  SizeDivider per_plane, channels;
  explicit ChannelOf(const BatchNormSizes& s) : per_plane(s.plane), channels(s.channels) {}
  CORE_BODY std::int64_t operator()(std::int64_t i) const {
    return channels.divide(per_plane.divide(i).quotient).remainder;
  }
};

/// out = body.at(channel)(x, y) for every x of `in` and y of `other`, which may be `in`; V of them at once.
template <class T, int V, class Body>
void map_packs(const BatchNormSizes& s, const void* in, const void* other, void* out, const Body& body) {
  const ChannelOf channel_of(s);
  const auto *x = static_cast<const Pack<T, V>*>(in), *y = static_cast<const Pack<T, V>*>(other);
  auto* to = static_cast<Pack<T, V>*>(out);
  for_each(s.batch * s.channels * s.plane / V, [=] CORE_BODY(std::int64_t i) {
    const auto of_channel = body.at(channel_of(i * V));
    const Pack<T, V> first = x[i], second = y[i];
    Pack<T, V> results;
    CORE_UNROLL
    for (int k = 0; k < V; ++k) {
      results.values[k] = narrow<T>(of_channel(widen(first.values[k]), widen(second.values[k])));
    }
    to[i] = results;
  });
}

template <class T, class Body>
void map_rows(const BatchNormSizes& s, const void* in, const void* other, void* out, const Body& body) {
  with_packs<T>(fit_packs<T>(s.channels, in, other, out), [&]<int V>() {
    map_columns<T, V>(s.batch, s.channels, static_cast<const T*>(in), static_cast<const T*>(other),
                      static_cast<T*>(out), body);
  });
}

/// Four elements at once where they are always of one channel: finding the channel costs more than the rest.
template <class T, class Body>
void map_channels(const BatchNormSizes& s, const void* in, const void* other, void* out, const Body& body) {
  constexpr int kPack = 4;
  if (s.plane == 1) return map_rows<T>(s, in, other, out, body);
  const auto fits = [](const void* data) { return is_aligned(data, sizeof(Pack<T, kPack>)); };
  if (s.plane % kPack == 0 && fits(in) && fits(other) && fits(out)) return map_packs<T, kPack>(s, in, other, out, body);
  map_packs<T, 1>(s, in, other, out, body);
}

template <class W>
struct ScaleAndShift {
  W scale, shift;
  CORE_BODY W operator()(W x, W) const { return x * scale + shift; }
};

template <class T>
struct Normalise {
  using W = Computed<T>;
  Parameter<T> weight, bias;
  const W *mean, *inverse_std;
  CORE_BODY ScaleAndShift<W> at(std::int64_t channel) const {
    const W scale = inverse_std[channel] * weight.value_or(channel, 1);
    return {scale, bias.value_or(channel, 0) - mean[channel] * scale};
  }
};

template <class T>
void batch_norm(const BatchNormParams& p) {
  using W = Computed<T>;
  map_channels<T>(p.sizes, p.input, p.input, p.output,
                  Normalise<T>{{p.weight, p.parameters_in_f32},
                               {p.bias, p.parameters_in_f32},
                               static_cast<const W*>(p.mean),
                               static_cast<const W*>(p.inverse_std)});
}

/// Of a channel: the gradient's sum, and that of its products with the centred input.
template <class W>
struct GradSums {
  W sum = 0, product = 0;
};
struct AddSums {
  template <class W>
  CORE_BODY GradSums<W> operator()(const GradSums<W>& a, const GradSums<W>& b) const {
    return {a.sum + b.sum, a.product + b.product};
  }
};

/// input_grad = (grad - mean_grad - (input - mean) * factor) * scale.
template <class W>
struct ChannelTerms {
  W mean, mean_grad, factor, scale;
  CORE_BODY W operator()(W grad, W x) const { return (grad - mean_grad - (x - mean) * factor) * scale; }
};
template <class W>
struct TermsOf {
  const ChannelTerms<W>* terms;
  CORE_BODY ChannelTerms<W> at(std::int64_t channel) const { return terms[channel]; }
};

/// Of some of the rows of a column.
template <class T>
struct ColumnGrads {
  const T *grad, *in;
  const Computed<T>* means;
  std::int64_t columns;

  CORE_BODY GradSums<Computed<T>> operator()(std::int64_t column, std::int64_t begin, std::int64_t end,
                                             std::int64_t step) const {
    using W = Computed<T>;
    GradSums<W> mine;
    for (std::int64_t row = begin; row < end; row += step) {
      const W g = widen(grad[row * columns + column]);
      mine.sum += g;
      mine.product += g * (widen(in[row * columns + column]) - means[column]);
    }
    return mine;
  }
};

template <class T>
void sum_grads(const BatchNormGradParams& p, const Channels& c, GradSums<Computed<T>>* found) {
  using W = Computed<T>;
  const auto *grad = static_cast<const T*>(p.output_grad), *in = static_cast<const T*>(p.input);
  const auto* means = static_cast<const W*>(p.mean);
  for_each_row(c.channels * c.parts, c.lanes(), [=] CORE_BODY(const Team& team, std::int64_t row) {
    const auto at = c.per_part.divide(row);
    const W mean = means[at.quotient];
    GradSums<W> mine;
    for (std::int64_t i = at.remainder * c.part_size + team.lane(); i < c.end(at.remainder); i += team.size()) {
      const std::int64_t place = c.place(at.quotient, i);
      const W g = widen(grad[place]);
      mine.sum += g;
      mine.product += g * (widen(in[place]) - mean);
    }
    const GradSums<W> all = team.reduce(mine, AddSums());
    if (team.lane() == 0) found[row] = all;
  });
}

/// The gradients of weight and bias, and what the input's needs.
template <class T>
struct FinishChannel {
  using W = Computed<T>;
  const W *mean, *inverse_std;
  Parameter<T> weight, weight_grad, bias_grad;
  W live;
  ChannelTerms<W>* terms;

  FinishChannel(const BatchNormGradParams& p, ChannelTerms<W>* found)
      : mean(static_cast<const W*>(p.mean)),
        inverse_std(static_cast<const W*>(p.inverse_std)),
        weight(p.weight, p.parameters_in_f32),
        weight_grad(p.weight_grad, p.parameters_in_f32),
        bias_grad(p.bias_grad, p.parameters_in_f32),
        live(p.batch_stats ? 1 / static_cast<W>(p.sizes.batch * p.sizes.plane) : W(0)),
        terms(found) {}

  CORE_BODY void operator()(std::int64_t channel, const GradSums<W>& all) const {
    const W scale = inverse_std[channel];
    weight_grad.put(channel, all.product * scale);
    bias_grad.put(channel, all.sum);
    terms[channel] = {mean[channel], all.sum * live, scale * scale * all.product * live,
                      scale * weight.value_or(channel, 1)};
  }
};

template <class T>
void sum_channels(const BatchNormGradParams& p, const FinishChannel<T>& finish) {
  using Sums = GradSums<Computed<T>>;
  const Channels c(p.sizes);
  const Scratch scratch(static_cast<std::size_t>(c.channels * c.parts) * sizeof(Sums));
  auto* found = scratch.as<Sums>();
  sum_grads<T>(p, c, found);
  for_each(c.channels, [=] CORE_BODY(std::int64_t channel) {
    Sums all;
    for (std::int64_t i = 0; i < c.parts; ++i) all = AddSums()(all, found[channel * c.parts + i]);
    finish(channel, all);
  });
}

template <class T>
void batch_norm_grad(const BatchNormGradParams& p) {
  using W = Computed<T>;
  const Scratch scratch(static_cast<std::size_t>(p.sizes.channels) * sizeof(ChannelTerms<W>));
  auto* terms = scratch.as<ChannelTerms<W>>();
  const FinishChannel<T> finish(p, terms);
  if (p.sizes.plane == 1) {
    const ColumnGrads<T> columns{static_cast<const T*>(p.output_grad), static_cast<const T*>(p.input), finish.mean,
                                 p.sizes.channels};
    sum_columns<GradSums<W>>(p.sizes.batch, p.sizes.channels, columns, AddSums(), finish);
  } else {
    sum_channels<T>(p, finish);
  }
  if (p.input_grad == nullptr) return;
  map_channels<T>(p.sizes, p.output_grad, p.input, p.input_grad, TermsOf<W>{terms});
}

}  // namespace

void fill_norms(NnTable& table) {
  table.takes_channels_last = true;  // fill_convolution() and fill_pooling() too
  for_floating_types([&]<class T>(std::size_t slot) {
    table.batch_stats[slot] = batch_stats<T>;
    table.batch_norm[slot] = batch_norm<T>;
    table.batch_norm_grad[slot] = batch_norm_grad<T>;
  });
  fill_layer_norm(table);
}

}  // namespace core::CORE_KERNELS
