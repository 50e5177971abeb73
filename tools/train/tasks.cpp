#include <algorithm>
#include <numeric>

#include "libcore/autograd/autocast.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/base/error.h"
#include "libcore/data/loader.h"
#include "libcore/dist/distributed_data_parallel.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/resize.h"
#include "libcore/parallel/data_parallel.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/generator.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"
#include "tools/train/hub_model.h"
#include "tools/train/processes.h"
#include "tools/train/task.h"
#include "zoo/capsnet.h"
#include "zoo/googlenet.h"
#include "zoo/inception.h"
#include "zoo/text_classifier.h"

namespace train {
namespace {

using core::Tensor;

constexpr std::int64_t kEvaluationBatch = 1000;

/// A model as it is, or DataParallel around it, or DistributedDataParallel where there are several processes. Models of
/// a known type keep it, so that forward may have any signature.
template <class M>
class Net {
 public:
  /// `waits`: for share(), before which it is the model alone.
  Net(std::shared_ptr<M> model, std::vector<core::Device> devices, bool waits = false)
      : model_(std::move(model)), devices_(std::move(devices)) {
    if (!devices_.empty()) {
      const std::size_t own = has_several_processes() ? static_cast<std::size_t>(local_rank()) % devices_.size() : 0;
      device_ = devices_[own];  // one a process, of those of its machine
      model_->core::Module::to(device_);
    }
    if (!waits) share(model_);
  }
  /// `whole`: the model, or what has it inside, which is what runs on several devices or in several processes.
  void share(const std::shared_ptr<M>& whole) {
    if (has_several_processes()) {
      distributed_ = std::make_shared<core::distributed::DistributedDataParallel<M>>(whole);
    } else if (!devices_.empty()) {
      std::vector<core::DeviceId> ids(devices_.begin(), devices_.end());
      parallel_ = std::make_shared<core::DataParallel<M>>(whole, core::DataParallelOptions{.device_ids = ids});
    }
  }
  core::Module& module() {
    if (distributed_) return *distributed_;
    return parallel_ ? static_cast<core::Module&>(*parallel_) : *model_;
  }
  M& model() { return *model_; }
  const std::shared_ptr<M>& shared_model() const { return model_; }
  core::Device device() const { return device_; }
  template <class... Args>
  auto operator()(const Args&... args) {
    if (distributed_) return distributed_->forward(args...);
    if (parallel_) return parallel_->forward(args...);
    if constexpr (std::is_same_v<M, core::Module>) {
      return model_->call(args...);
    } else {
      return model_->forward(args...);
    }
  }

 private:
  std::shared_ptr<M> model_;
  std::vector<core::Device> devices_;
  std::shared_ptr<core::DataParallel<M>> parallel_;
  std::shared_ptr<core::distributed::DistributedDataParallel<M>> distributed_;
  core::Device device_;
};

/// The rows of a data set as f32 and at the size that was asked for.
class Batches {
 public:
  Batches(const Rows& rows, const DataSet& data, std::int64_t resize)
      : rows_(rows), divisor_(data.divisor), mean_(data.mean), deviation_(data.deviation), resize_(resize) {}
  std::int64_t size() const { return rows_.size(); }
  std::tuple<Tensor, Tensor> get(std::int64_t index) const {
    return {prepared(rows_.inputs[index].unsqueeze(0))[0], rows_.targets[index]};
  }
  std::tuple<Tensor, Tensor> get_batch(std::span<const std::int64_t> indices) const {
    const Tensor at = core::empty({static_cast<std::int64_t>(indices.size())}, {.dtype = core::DType::i64});
    std::copy(indices.begin(), indices.end(), at.mutable_data<std::int64_t>());
    return {prepared(rows_.inputs.index_select(0, at)), rows_.targets.index_select(0, at)};
  }
  std::tuple<Tensor, Tensor> slice(std::int64_t begin, std::int64_t end) const {
    return {prepared(rows_.inputs.slice(0, begin, end)), rows_.targets.slice(0, begin, end)};
  }

 private:
  Tensor prepared(Tensor x) const {
    if (x.dtype() == core::DType::u8) x = x.to(core::DType::f32).div_(divisor_);
    if (mean_.defined()) x = (x - mean_) / deviation_;
    if (resize_ == 0 || (x.size(2) == resize_ && x.size(3) == resize_)) return x;
    return core::interpolate(x, {.size = {resize_, resize_}, .mode = "bilinear", .align_corners = false});
  }
  Rows rows_;
  double divisor_;
  Tensor mean_, deviation_;
  std::int64_t resize_;
};

Tensor count_right(const Tensor& scores, const Tensor& target) {
  return scores.detach().argmax(1).eq(target).sum();
}

/// Rows with a target. `M` is the type of the model; Outcomes come from its subclass.
template <class M>
class RowTask : public Task {
 public:
  RowTask(std::shared_ptr<M> model, const RunOptions& o, const DataSet& data)
      : net_(std::move(model), choose_devices(o.devices), o.lora.has_value()),
        is_classes_(data.classes > 0),
        evaluation_batch_(is_model_folder(o.model) ? std::max<std::int64_t>(1, *o.batch) : kEvaluationBatch),
        train_(data.train, data, o.resize.value_or(0)),
        test_(data.test, data, o.resize.value_or(0)),
        sampler_(share_of(train_.size(), !o.in_order)),
        loader_(train_, {.batch_size = *o.batch > 0 ? *o.batch : train_.size(),
                         .shuffle = !o.in_order && !sampler_,
                         .sampler = sampler_}) {}

  core::Module& module() override { return lora_ ? *lora_ : net_.module(); }
  core::Module& model() override { return lora_ ? static_cast<core::Module&>(*lora_) : net_.model(); }
  const Lora* lora() const override { return lora_.get(); }
  std::int64_t steps() const override { return loader_.size(); }
  void begin_epoch() override {
    learn_on();
    if (sampler_) sampler_->set_epoch(shared_number(core::randint(std::int64_t{1} << 40, {1}).item<std::int64_t>()));
    batch_.emplace(loader_.begin());
    is_first_ = true;
  }
  bool next() override {
    if (!is_first_) ++*batch_;
    is_first_ = false;
    return *batch_ != loader_.end();
  }
  Outcome forward() override {
    auto& [x, y] = **batch_;
    return learn(x.to(net_.device()), y.to(net_.device()));
  }
  std::optional<Evaluation> evaluate() override {
    if (test_.size() == 0) return std::nullopt;
    core::NoGradGuard no_grad;
    net_.module().eval();
    Evaluation sum{.loss = 0, .accuracy = {}, .right = 0, .rows = test_.size()};
    for (std::int64_t begin = 0; begin < test_.size(); begin += evaluation_batch_) {
      auto [x, y] = test_.slice(begin, std::min(begin + evaluation_batch_, test_.size()));
      const Outcome part = look(x.to(net_.device()), y.to(net_.device()));
      sum.loss += part.loss.template item<double>() / static_cast<double>(test_.size());
      if (part.right.defined()) sum.right += part.right.template item<std::int64_t>();
    }
    learn_on();
    if (is_classes_) sum.accuracy = static_cast<double>(sum.right) / static_cast<double>(sum.rows);
    return sum;
  }

  /// Factors learn in place of the model.
  void learn_factors(const RunOptions& o, const DataSet& data) {
    if (!o.lora) return;
    LoraOptions options = lora_options(o);
    if (is_classes_) options.learn_too = learning_parts(o.model, data, net_.model());
    core::manual_seed(static_cast<std::uint64_t>(*o.seed));  // so that they are PEFT's of that seed
    lora_ = std::make_shared<Lora>(net_.model(), std::move(options));
    net_.share(std::make_shared<WithFactors>(net_.shared_model(), *lora_));
  }

 protected:
  /// With history; the mean over the batch.
  virtual Outcome learn(const Tensor& x, const Tensor& y) = 0;
  /// Without; the sum over the batch.
  virtual Outcome look(const Tensor& x, const Tensor& y) = 0;
  Net<M> net_;
  const bool is_classes_;

 private:
  void learn_on() {
    net_.module().train();
    if (lora_) keep_statistics(net_.module());  // which no adapter holds
  }

  /// None in one process.
  static std::shared_ptr<core::DistributedSampler> share_of(std::int64_t rows, bool shuffles) {
    if (!has_several_processes()) return nullptr;
    return std::make_shared<core::DistributedSampler>(rows, core::DistributedSamplerOptions{.shuffle = shuffles});
  }

  std::shared_ptr<Lora> lora_;
  std::int64_t evaluation_batch_;  ///< rows
  Batches train_, test_;
  std::shared_ptr<core::DistributedSampler> sampler_;
  core::DataLoader<Batches> loader_;
  std::optional<core::DataLoader<Batches>::Iterator> batch_;
  bool is_first_ = true;
};

class PlainTask final : public RowTask<core::Module> {
  using RowTask::RowTask;
  Outcome outcome(const Tensor& x, const Tensor& y, core::Reduction reduction) {
    const Tensor out = net_(x);
    if (!is_classes_) return {core::mse_loss(out, y, reduction), {}, x.size(0)};
    return {core::cross_entropy(out, y, {.reduction = reduction}), count_right(out, y), x.size(0)};
  }
  Outcome learn(const Tensor& x, const Tensor& y) override { return outcome(x, y, core::Reduction::mean); }
  Outcome look(const Tensor& x, const Tensor& y) override { return outcome(x, y, core::Reduction::sum); }
};

/// A model whose auxiliary heads learn along: their losses count too, with the weights that torchvision's programs and
/// the papers give them. `kWeight` in percent.
template <class M, int kWeight>
class HeadsTask final : public RowTask<M> {
  using RowTask<M>::RowTask;
  Outcome learn(const Tensor& x, const Tensor& y) override {
    auto out = this->net_(x, zoo::WithHeads{});
    Tensor loss = core::cross_entropy(out.logits, y);
    for (const Tensor& head : heads_of(out)) loss = loss + core::cross_entropy(head, y) * (kWeight / 100.0);
    return {loss, count_right(out.logits, y), x.size(0)};
  }
  Outcome look(const Tensor& x, const Tensor& y) override {
    const Tensor out = this->net_(x);
    return {core::cross_entropy(out, y, {.reduction = core::Reduction::sum}), count_right(out, y), x.size(0)};
  }
  static std::vector<Tensor> heads_of(const zoo::GoogLeNet::Outputs& out) { return {out.aux_logits1, out.aux_logits2}; }
  static std::vector<Tensor> heads_of(const zoo::Inception3::Outputs& out) { return {out.aux_logits}; }
};

/// In training the true class is told to the reconstruction.
class CapsuleTask final : public RowTask<zoo::CapsNet> {
  using RowTask::RowTask;
  Outcome learn(const Tensor& x, const Tensor& y) override {
    const std::tuple<Tensor, Tensor> out = net_(x, y);
    return {zoo::capsule_loss(out, x, y), count_right(std::get<0>(out), y), x.size(0)};
  }
  Outcome look(const Tensor& x, const Tensor& y) override {
    const std::tuple<Tensor, Tensor> out = net_(x);
    return {zoo::capsule_loss(out, x, y) * static_cast<double>(x.size(0)), count_right(std::get<0>(out), y), x.size(0)};
  }
};

/// Texts with a class, padded to the longest of a batch. One device: its model takes two tensors, tokens and mask.
class TextRowTask final : public RowTask<core::Module> {
 public:
  TextRowTask(std::shared_ptr<core::Module> model, const RunOptions& o, const DataSet& data)
      : RowTask(std::move(model), o, data), padding_(data.padding) {
    if (has_several_processes() || choose_devices(o.devices).size() > 1) {
      throw core::Error(core::ErrorCode::usage,
                        "texts with classes are learnt by one process on one device: --devices 1");
    }
  }

 private:
  Outcome outcome(const Tensor& x, const Tensor& y, core::Reduction reduction) {  // (n, t)
    const Tensor there = core::ge(x, core::Scalar(0)).to(core::DType::i64);
    const auto longest = there.sum({1}).max().item<std::int64_t>();
    const Tensor mask = there.slice(1, 0, longest);
    const Tensor tokens = core::masked_fill(x.slice(1, 0, longest), mask.eq(core::Scalar(0)), padding_);
    const Tensor out = dynamic_cast<zoo::TextClassifier&>(net_.model()).classified(tokens, mask);
    return {core::cross_entropy(out, y, {.reduction = reduction}), count_right(out, y), x.size(0)};
  }
  Outcome learn(const Tensor& x, const Tensor& y) override { return outcome(x, y, core::Reduction::mean); }
  Outcome look(const Tensor& x, const Tensor& y) override { return outcome(x, y, core::Reduction::sum); }

  std::int64_t padding_;
};

/// Blocks of tokens: each is said by those before it.
class LanguageTask final : public RowTask<core::Module> {
  using RowTask::RowTask;
  Outcome outcome(const Tensor& x) {  // (n, t)
    const std::int64_t last = x.size(1) - 1;
    const Tensor logits = net_(x.slice(1, 0, last));  // (n, t - 1, tokens)
    return {
        core::cross_entropy(logits.reshape({-1, logits.size(2)}), x.slice(1, 1, last + 1).flatten()), {}, x.size(0)};
  }
  Outcome learn(const Tensor& x, const Tensor&) override { return outcome(x); }
  Outcome look(const Tensor& x, const Tensor&) override {
    Outcome mean = outcome(x);
    mean.loss = mean.loss * static_cast<double>(x.size(0));
    return mean;
  }
};

class TextTask final : public Task {
 public:
  TextTask(const RunOptions& o, const TextData& text, Offsets offsets)
      : net_(make_text_model(o, text.symbols.count()), choose_devices(o.devices)),
        symbols_(text.symbols.count()),
        length_(*o.length),
        batch_(*o.batch),
        epoch_steps_(*o.epoch_steps),
        train_(text.train),
        held_(text.held),
        offsets_(offsets ? std::move(offsets) : [this](std::int64_t, std::int64_t limit) { return drawn(limit); }) {}

  core::Module& module() override { return net_.module(); }
  core::Module& model() override { return net_.model(); }
  std::int64_t steps() const override { return epoch_steps_; }
  void begin_epoch() override { step_in_epoch_ = 0; }
  bool next() override {
    if (step_in_epoch_ == epoch_steps_) return false;
    ++step_in_epoch_;
    ++step_;
    x_ = core::empty({batch_, length_}, {.dtype = core::DType::i64});
    y_ = core::empty({batch_, length_}, {.dtype = core::DType::i64});
    auto *x = x_.mutable_data<std::int64_t>(), *y = y_.mutable_data<std::int64_t>();
    for (std::int64_t offset : offsets_(step_, static_cast<std::int64_t>(train_.size()) - length_)) {
      x = std::copy_n(train_.begin() + offset, length_, x);
      y = std::copy_n(train_.begin() + offset + 1, length_, y);
    }
    return true;
  }
  Outcome forward() override { return {loss(x_, y_), {}, batch_}; }
  std::optional<Evaluation> evaluate() override {
    const auto rows = (static_cast<std::int64_t>(held_.size()) - 1) / length_;
    if (rows < 1) return std::nullopt;
    core::NoGradGuard no_grad;
    net_.module().eval();
    Evaluation sum{.loss = 0, .accuracy = {}, .right = 0, .rows = rows};
    for (std::int64_t begin = 0; begin < rows; begin += kHeldRows) {
      const std::int64_t n = std::min(kHeldRows, rows - begin);
      const double part = static_cast<double>(n) / static_cast<double>(rows);
      sum.loss += part * loss(held_rows(begin, n, 0), held_rows(begin, n, 1)).item<double>();
    }
    net_.module().train();
    return sum;
  }

 private:
  static constexpr std::int64_t kHeldRows = 64;

  Tensor loss(const Tensor& x, const Tensor& y) {     // (n, length) each
    const Tensor logits = net_(x.to(net_.device()));  // (n, length, symbols)
    return core::cross_entropy(logits.reshape({-1, symbols_}), y.to(net_.device()).flatten());
  }
  /// (n, length)
  Tensor held_rows(std::int64_t begin, std::int64_t n, std::int64_t shift) const {
    const Tensor rows = core::empty({n, length_}, {.dtype = core::DType::i64});
    std::copy_n(held_.begin() + begin * length_ + shift, n * length_, rows.mutable_data<std::int64_t>());
    return rows;
  }
  /// Those of all processes, of which this one takes its part.
  std::vector<std::int64_t> drawn(std::int64_t limit) const {
    const Tensor all = core::randint(limit, {batch_ * process_count()});
    return all.narrow(0, batch_ * process_rank(), batch_).to_vector<std::int64_t>();
  }

  Net<core::Module> net_;
  std::int64_t symbols_, length_, batch_, epoch_steps_;
  std::int64_t step_ = 0, step_in_epoch_ = 0;
  std::vector<std::int64_t> train_, held_;
  Offsets offsets_;
  Tensor x_, y_;
};

template <class Task>
std::unique_ptr<Task> with_factors(std::shared_ptr<core::Module> model, const RunOptions& o, const DataSet& data) {
  auto task = std::make_unique<Task>(std::move(model), o, data);
  task->learn_factors(o, data);
  return task;
}

}  // namespace

Outcome forward(Task& task, const RunOptions& o) {
  if (o.amp.empty()) return task.forward();
  const bool is_on_cpu = task.module().parameters().front().device().is_cpu();
  const core::autocast mixed(is_on_cpu ? "cpu" : "cuda",
                             {.dtype = o.amp == "f16" ? core::DType::f16 : core::DType::bf16});
  return task.forward();
}

std::unique_ptr<Task> make_task(const RunOptions& options, const DataSet& data) {
  std::shared_ptr<core::Module> model = make_model(options, data);
  if (data.is_text) return with_factors<TextRowTask>(std::move(model), options, data);
  if (is_model_folder(options.model)) return with_factors<PlainTask>(std::move(model), options, data);
  if (auto capsules = std::dynamic_pointer_cast<zoo::CapsNet>(model)) {
    return std::make_unique<CapsuleTask>(std::move(capsules), options, data);
  }
  if (auto net = std::dynamic_pointer_cast<zoo::GoogLeNet>(model); net && net->aux1) {
    return std::make_unique<HeadsTask<zoo::GoogLeNet, 30>>(std::move(net), options, data);
  }
  if (auto net = std::dynamic_pointer_cast<zoo::Inception3>(model); net && net->aux_head) {
    return std::make_unique<HeadsTask<zoo::Inception3, 40>>(std::move(net), options, data);
  }
  return std::make_unique<PlainTask>(std::move(model), options, data);
}

std::unique_ptr<Task> make_language_task(const RunOptions& options, const DataSet& data) {
  return with_factors<LanguageTask>(load_decoder(options.model), options, data);
}

std::unique_ptr<Task> make_text_task(const RunOptions& options, const TextData& text, Offsets offsets) {
  return std::make_unique<TextTask>(options, text, std::move(offsets));
}

}  // namespace train
