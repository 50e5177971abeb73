// Golden data set golden_tensorboard: the files of the calls that PyTorch's SummaryWriter was given, beside what
// tensorboard reads in PyTorch's.
#include <png.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "libcore/tensor/factory.h"
#include "libcore/tensorboard/summary_writer.h"
#include "tests/libcore/tensorboard/event_reader.h"
#include "tests/support/golden_json.h"
#include "tests/support/temp_dir.h"

namespace {

namespace tb = core::tensorboard;
using core::Tensor;
using test::Json;
using test::Message;

bool near(double a, double b) {
  if (std::isnan(b)) return std::isnan(a);
  return a == b || std::abs(a - b) <= 1e-12 * std::abs(b);
}

bool near(const std::vector<double>& a, const std::vector<double>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](double x, double y) { return near(x, y); });
}

Tensor tensor_in(Json call) {
  const Json json = test::member(call, "tensor");
  const Tensor values = core::from_values(test::numbers(test::member(json, "values")));
  return values.to(test::dtype(test::member(json, "dtype"))).reshape(test::shape(test::member(json, "sizes")));
}

tb::HparamValue parameter(Json value) {
  if (value.is_bool()) return bool(value);
  if (value.is_int64()) return std::int64_t(value);
  if (value.is_double()) return double(value);
  return test::text(value);
}

tb::Metrics metrics_in(Json object) {
  tb::Metrics metrics;
  for (const auto field : object.get_object()) metrics.emplace_back(field.key, test::number(field.value));
  return metrics;
}

void add_hparams(tb::SummaryWriter& writer, Json call, tb::Step step) {
  tb::Hparams parameters;
  for (const auto field : test::member(call, "hparam_dict").get_object())
    parameters.emplace_back(field.key, parameter(field.value));
  tb::HparamsOptions options{
      .domain_discrete = {}, .run_name = test::text(test::member(call, "run_name")), .global_step = step};
  for (const auto field : test::member(call, "hparam_domain_discrete").get_object()) {
    for (const Json value : test::items(field.value))
      options.domain_discrete[std::string(field.key)].push_back(parameter(value));
  }
  writer.add_hparams(parameters, metrics_in(test::member(call, "metric_dict")), options);
}

void add_histogram(tb::SummaryWriter& writer, Json call, tb::Step step) {
  tb::HistogramOptions options;
  if (test::has(call, "bins")) options.bins = test::numbers(test::member(call, "bins"));
  if (test::has(call, "max_bins")) options.max_bins = test::integer(test::member(call, "max_bins"));
  writer.add_histogram(test::text(test::member(call, "tag")), tensor_in(call), step, options);
}

void make_call(tb::SummaryWriter& writer, Json call) {
  const auto text = [&](const char* name) { return test::text(test::member(call, name)); };
  const std::string name = text("call");
  tb::Step step;
  if (test::has(call, "global_step")) step = test::integer(test::member(call, "global_step"));
  if (name == "add_hparams") return add_hparams(writer, call, step);
  if (name == "add_histogram") return add_histogram(writer, call, step);
  if (name == "add_text") return writer.add_text(text("tag"), text("text_string"), step);
  if (name == "add_scalars")
    return writer.add_scalars(text("main_tag"), metrics_in(test::member(call, "tag_scalar_dict")), step);
  if (name == "add_image")
    return writer.add_image(text("tag"), tensor_in(call), step, {.dataformats = text("dataformats")});
  if (name == "add_images")
    return writer.add_images(text("tag"), tensor_in(call), step, {.dataformats = text("dataformats")});
  if (name != "add_scalar") throw std::out_of_range("no such call: " + name);
  if (test::has(call, "tensor")) return writer.add_scalar(text("tag"), tensor_in(call), step);
  writer.add_scalar(text("tag"), test::number(test::member(call, "scalar_value")), step);
}

std::vector<std::int64_t> pixels_of(const std::string& encoded, std::int64_t channels) {
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  if (png_image_begin_read_from_memory(&image, encoded.data(), encoded.size()) == 0) return {};
  image.format = channels == 4 ? PNG_FORMAT_RGBA : PNG_FORMAT_RGB;
  std::vector<unsigned char> pixels(PNG_IMAGE_SIZE(image));
  if (png_image_finish_read(&image, nullptr, pixels.data(), 0, nullptr) == 0) return {};
  return {pixels.begin(), pixels.end()};
}

std::string check_image(const Message& value, Json wanted) {
  const Message image = value.at(4);
  const std::vector<std::int64_t> size = {image.integer(1), image.integer(2), image.integer(3)};
  if (size != test::integers(test::member(wanted, "size"))) return "the image has another size";
  return pixels_of(image.bytes(4), size[2]) == test::integers(test::member(wanted, "pixels")) ? "" : "other pixels";
}

std::string check_histogram(const Message& value, Json wanted) {
  const Message h = value.at(5);
  if (!near({h.real(1), h.real(2), h.real(3), h.real(4), h.real(5)}, test::numbers(test::member(wanted, "histogram"))))
    return "other facts of the histogram";
  if (!near(h.reals(6), test::numbers(test::member(wanted, "limits")))) return "other limits";
  return near(h.reals(7), test::numbers(test::member(wanted, "counts"))) ? "" : "other counts";
}

std::string text_or_number(const Message& value) {
  return value.has(3) ? value.bytes(3) : value.has(2) ? std::to_string(value.real(2)) : "nothing";
}

std::string text_or_number(Json value) {
  return value.is_string() ? test::text(value) : std::to_string(test::number(value));
}

std::string check_parameters(const Message& experiment, Json wanted) {
  const auto infos = test::items(test::member(wanted, "parameters"));
  if (experiment.count(4) != infos.size()) return "another number of parameters";
  for (std::size_t i = 0; i < infos.size(); ++i) {
    const Message info = experiment.at(4, i);
    const auto facts = test::items(infos[i]);
    if (info.bytes(1) != test::text(facts[0]) || info.integer(4) != test::integer(facts[1])) return "a parameter";
    const auto domain = test::items(facts[2]);
    if ((info.has(5) ? info.at(5).count(1) : 0) != domain.size()) return "another number of possible values";
    for (std::size_t j = 0; j < domain.size(); ++j) {
      if (text_or_number(info.at(5).at(1, j)) != text_or_number(domain[j])) return "a possible value";
    }
  }
  const auto metrics = test::texts(test::member(wanted, "metrics"));
  if (experiment.count(5) != metrics.size()) return "another number of metrics";
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    if (experiment.at(5, i).at(1).bytes(2) != metrics[i]) return "a metric";
  }
  return "";
}

std::string check_hparams(const Message& data, Json wanted) {
  if (data.has(2)) return check_parameters(data.at(2), wanted);
  if (data.has(4))
    return data.at(4).integer(1) == test::integer(test::member(wanted, "status")) ? "" : "another status";
  std::map<std::string, std::string> got, expected;
  for (std::size_t i = 0; i < data.at(3).count(1); ++i) {
    const Message entry = data.at(3).at(1, i);
    got[entry.bytes(1)] = text_or_number(entry.at(2));
  }
  for (const auto field : test::member(wanted, "values").get_object())
    expected[std::string(field.key)] = text_or_number(field.value);
  return got == expected ? "" : "other values of parameters";
}

std::string check_value(const Message& value, Json wanted) {
  if (value.bytes(1) != test::text(test::member(wanted, "tag"))) return "the tag is " + value.bytes(1);
  const std::string plugin = value.has(9) ? value.at(9).at(1).bytes(1) : "";
  if (plugin != test::text(test::member(wanted, "plugin"))) return "the plugin is " + plugin;
  if (test::has(wanted, "simple_value") &&
      value.real32(2) != static_cast<float>(test::number(test::member(wanted, "simple_value"))))
    return "the number is " + std::to_string(value.real32(2));
  if (test::has(wanted, "text") && value.at(8).bytes(8) != test::text(test::member(wanted, "text")))
    return "other text";
  if (test::has(wanted, "histogram")) return check_histogram(value, wanted);
  if (test::has(wanted, "pixels")) return check_image(value, wanted);
  return plugin == "hparams" ? check_hparams(value.at(9).at(1).at(2), wanted) : "";
}

std::string check_event(const Message& event, Json wanted) {
  if ((event.has(2) ? event.integer(2) : 0) != test::integer(test::member(wanted, "step"))) return "another step";
  if ((event.has(3) ? event.bytes(3) : "") != test::text(test::member(wanted, "version"))) return "another version";
  const std::int64_t session = event.has(7) ? event.at(7).integer(1) : 0;
  if (session != test::integer(test::member(wanted, "session"))) return "another session";
  const auto values = test::items(test::member(wanted, "values"));
  if ((event.has(5) ? event.at(5).count(1) : 0) != values.size()) return "another number of values";
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::string why = check_value(event.at(5).at(1, i), values[i]); !why.empty()) return why;
  }
  return "";
}

/// The event files below a folder, by the folder that each is in.
std::map<std::string, std::vector<Message>> files_below(const std::filesystem::path& folder) {
  std::map<std::string, std::vector<Message>> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    files[entry.path().parent_path().lexically_relative(folder).string()] = test::read_events(entry.path());
  }
  return files;
}

std::string check_files(const std::filesystem::path& folder, Json wanted) {
  const auto files = files_below(folder);
  if (files.size() != wanted.get_object().size()) return "there are " + std::to_string(files.size()) + " files";
  for (const auto field : wanted.get_object()) {
    const auto found = files.find(std::string(field.key));
    if (found == files.end()) return "no file in " + std::string(field.key);
    const auto events = test::items(field.value);
    if (found->second.size() != events.size()) return "another number of events in " + found->first;
    for (std::size_t i = 0; i < events.size(); ++i) {
      const std::string why = check_event(found->second[i], events[i]);
      if (!why.empty()) return found->first + ", event " + std::to_string(i) + ": " + why;
    }
  }
  return "";
}

void run_case(Json json, test::GoldenRun& run) {
  const std::string id = test::text(test::member(json, "id"));
  test::guarded(run, id, [&] {
    const test::TempDir dir;
    tb::SummaryWriterOptions options = {};
    const Json given = test::member(json, "options");
    if (test::has(given, "purge_step")) options.purge_step = test::integer(test::member(given, "purge_step"));
    tb::SummaryWriter writer(dir.path().string(), options);
    for (const Json call : test::items(test::member(json, "calls"))) make_call(writer, call);
    writer.close();
    const std::string why = check_files(dir.path(), test::member(json, "files"));
    run.check(id, why.empty(), why);
  });
}

}  // namespace

int main() {
  return test::golden_main("tensorboard", "tensorboard/cases.json", [](Json root, test::GoldenRun& run) {
    for (const Json json : test::items(test::member(root, "cases"))) run_case(json, run);
  });
}
