// Rules learnt from fresh models, whose norms are ones and whose biases are zeros, applied to other weights under the
// same names: every tensor must come out as the real libraries' own map of names says (make_align_cases.py). Both
// directions, files in the order of the model and of the alphabet, and pairs of models that were initialised alike or
// not. What is not decided may be left out, but nothing may be wrong.

#include <algorithm>
#include <random>
#include <set>

#include "libckpt/ckpt.h"
#include "libckpt/transform/derived_entry.h"
#include "tests/support/golden_json.h"

namespace {

using test::Json;

struct Source {
  std::string name;
  core::Shape shape;
  core::DType dtype;
  std::string relation;  ///< "random", "same as", "tied to"; "" for a constant
  std::string other;     ///< the name that it is the same as
  double constant = 0;
};

struct Target {
  std::string name;
  std::string how;
  std::string from;
  std::vector<std::int64_t> numbers;
};

struct Case {
  std::string name;
  std::vector<Source> a;
  std::vector<Target> b;
};

Source source_of(Json json) {
  std::vector<Json> fields = test::items(json);
  Source out{test::text(fields.at(0)), test::shape(fields.at(1)), test::dtype(fields.at(2)), "", "", 0};
  if (!fields.at(3).is_string()) {
    out.constant = test::number(fields[3]);
    return out;
  }
  std::string text = test::text(fields[3]);
  out.relation = text.substr(0, std::string("same as").size());
  if (out.relation != "random") out.other = text.substr(out.relation.size() + 1);
  return out;
}

Target target_of(Json json) {
  std::vector<Json> fields = test::items(json);
  Target out{test::text(fields.at(0)), test::text(fields.at(1)), test::text(fields.at(2)), {}};
  if (out.how == "reshape") out.numbers = test::integers(fields.at(3));
  for (std::size_t n = 3; out.how == "rows" && n < fields.size(); ++n) out.numbers.push_back(test::integer(fields[n]));
  return out;
}

Case case_of(Json json) {
  Case out{test::text(test::member(json, "name")), {}, {}};
  for (Json item : test::items(test::member(json, "a"))) out.a.push_back(source_of(item));
  for (Json item : test::items(test::member(json, "b"))) out.b.push_back(target_of(item));
  return out;
}

template <class Number, class Next>
ckpt::EntryPtr entry_of(const Source& source, Next&& next) {
  auto entry = std::make_shared<ckpt::Entry>();
  entry->dtype = source.dtype;
  entry->shape = source.shape;
  core::ByteVector raw;
  for (std::int64_t n = 0; n < source.shape.numel(); ++n) core::append_le(raw, static_cast<Number>(next()));
  entry->bytes = ckpt::memory_source(std::move(raw));
  return entry;
}

using Tensors = std::vector<std::pair<std::string, ckpt::EntryPtr>>;

ckpt::EntryPtr find(const Tensors& tensors, const std::string& name) {
  auto found = std::find_if(tensors.begin(), tensors.end(), [&](const auto& item) { return item.first == name; });
  if (found == tensors.end()) throw std::runtime_error("no tensor " + name);
  return found->second;
}

/// Fresh weights, or trained ones, which are all different; ties stay what they are.
Tensors weights(const Case& of, unsigned seed, bool trained) {
  std::mt19937_64 random(seed);
  Tensors out;
  for (const Source& source : of.a) {
    if (source.relation == "tied to" || (source.relation == "same as" && !trained)) {
      ckpt::EntryPtr other = find(out, source.other);
      if (source.relation == "same as") {
        auto copy = std::make_shared<ckpt::Entry>(*other);
        copy->bytes = ckpt::memory_source(ckpt::read_all(*other->bytes));
        other = copy;
      }
      out.emplace_back(source.name, other);
      continue;
    }
    bool constant = !trained && source.relation.empty();
    auto real = [&] { return constant ? source.constant : static_cast<double>(random() >> 32) / 4.0e9 - 0.5; };
    auto whole = [&] {
      return constant ? static_cast<std::int64_t>(source.constant) : static_cast<std::int64_t>(random() >> 8);
    };
    out.emplace_back(source.name, source.dtype == core::DType::i64 ? entry_of<std::int64_t>(source, whole)
                                                                   : entry_of<float>(source, real));
  }
  return out;
}

/// The same weights under the names of the other project.
Tensors converted(const Case& of, const Tensors& a) {
  Tensors out;
  for (const Target& target : of.b) {
    if (target.how == "tied") {
      out.emplace_back(target.name, find(out, target.from));
      continue;
    }
    ckpt::EntryPtr made = find(a, target.from);
    if (target.how == "transpose") made = ckpt::detail::transposed(*made, {});
    if (target.how == "reshape") made = ckpt::detail::reshaped(*made, target.numbers);
    if (target.how == "rows") {
      std::int64_t all = made->shape[0];
      std::vector<std::int64_t> sizes = {target.numbers[0], target.numbers[1] - target.numbers[0],
                                         all - target.numbers[1]};
      made = ckpt::detail::split_parts(*made, 0, 3, sizes)[1];
    }
    auto copy = std::make_shared<ckpt::Entry>(*made);
    if (target.how != "same") copy->bytes = ckpt::memory_source(ckpt::read_all(*made->bytes));
    out.emplace_back(target.name, copy);
  }
  return out;
}

ckpt::Checkpoint checkpoint_of(Tensors tensors, bool sorted) {
  if (sorted) std::sort(tensors.begin(), tensors.end());
  ckpt::Dict dict;
  for (const auto& [name, entry] : tensors)
    dict.items.emplace_back(ckpt::Value::text(name), ckpt::Value::tensor(entry));
  ckpt::Checkpoint out;
  out.root = ckpt::Value::dict(std::move(dict));
  return out;
}

struct Variation {
  enum class Twist { none, shuffled, nameless };
  bool backward = false;
  bool sort_a = false;
  bool sort_b = false;
  bool other_values = false;
  Twist twist = Twist::none;  ///< of the target: tensors in any order; modules named by letters that say nothing
};

std::string id_of(const Case& of, const Variation& how) {
  return of.name + (how.backward ? " backward" : "") + (how.sort_a ? " a sorted" : "") +
         (how.sort_b ? " b sorted" : "") + (how.other_values ? " other values" : "") +
         (how.twist == Variation::Twist::shuffled ? " shuffled" : "") +
         (how.twist == Variation::Twist::nameless ? " nameless" : "");
}

/// "layer1.0.bn1.weight" as "b.c.d.weight".
void forget_names(Tensors& tensors) {
  std::map<std::string, std::string> letters;
  for (auto& [name, entry] : tensors) {
    std::string out;
    std::size_t at = 0;
    for (std::size_t dot = name.find('.'); dot != std::string::npos; at = dot + 1, dot = name.find('.', at)) {
      std::string& word = letters[name.substr(at, dot - at)];
      for (std::size_t n = letters.size(); word.empty() || n > 0; n /= 26) word += static_cast<char>('a' + n % 26);
      out += word + ".";
    }
    name = out + name.substr(at);
  }
}

void twist(Tensors& tensors, Variation::Twist how) {
  if (how == Variation::Twist::nameless) forget_names(tensors);
  if (how == Variation::Twist::shuffled) std::shuffle(tensors.begin(), tensors.end(), std::mt19937(7));
}

/// Names of B that the rules leave out, as align itself says.
std::set<std::string> left_out(const ckpt::AlignResult& result) {
  std::set<std::string> out;
  for (const std::string& name : result.only_in_b) {
    if (!name.ends_with("relative_position_index")) out.insert(name);  // tables that timm does not save
  }
  for (const ckpt::UndecidedTensors& tensors : result.undecided) out.insert(tensors.b.begin(), tensors.b.end());
  return out;
}

bool same(const ckpt::Entry& x, const ckpt::Entry& y) {
  return x.dtype == y.dtype && x.shape == y.shape && ckpt::read_all(*x.bytes) == ckpt::read_all(*y.bytes);
}

struct Outcome {
  std::size_t wrong = 0;
  std::size_t open = 0;
  std::string first_wrong = {};
  std::string first_open = {};
};

Outcome try_out(const Case& of, const Variation& how) {
  auto sides = [&](const Tensors& a, const Tensors& b) { return how.backward ? std::pair(b, a) : std::pair(a, b); };
  Tensors fresh = weights(of, 1, false);
  Tensors others = how.other_values ? weights(of, 2, false) : fresh;
  auto [a, b] = how.backward ? std::pair(converted(of, fresh), others) : std::pair(fresh, converted(of, others));
  twist(b, how.twist);
  ckpt::AlignResult result =
      ckpt::align(checkpoint_of(a, how.sort_a), checkpoint_of(b, how.sort_b), {.drop_unused = true});
  ckpt::Rules rules = ckpt::parse_rules(ckpt::to_toml(result), "rules");
  Tensors trained = weights(of, 3, true);
  auto [trained_a, trained_b] = sides(trained, converted(of, trained));
  twist(trained_b, how.twist);
  ckpt::Checkpoint from = checkpoint_of(trained_a, how.sort_a);
  ckpt::Checkpoint made = rules.empty() ? from : ckpt::apply_rules(from, rules);
  std::map<std::string, ckpt::EntryPtr> found;
  for (const ckpt::NamedEntry& e : ckpt::list_entries(made.root)) found.emplace(e.name, e.entry);
  std::set<std::string> open = left_out(result);
  std::set<std::string> only_in_b(result.only_in_b.begin(), result.only_in_b.end());
  Outcome out{result.wrong.size(), open.size(), result.wrong.empty() ? "" : result.wrong[0],
              open.empty() ? "" : *open.begin()};
  for (const auto& [name, entry] : trained_b) {
    auto at = found.find(name);
    bool right = at != found.end() && same(*at->second, *entry);
    if (right || open.contains(name) || only_in_b.contains(name)) continue;
    if (++out.wrong == 1) out.first_wrong = name;
  }
  return out;
}

/// Names of which every tensor must be decided where both files have the order of their models.
bool must_be_complete(const Case& of, const Variation& how) {
  bool unchanged = of.name.ends_with("_module") || of.name == "gpt2_base_model" || of.name.ends_with("resnet18_timm") ||
                   of.name.ends_with("resnet50_timm");
  if (how.twist == Variation::Twist::nameless) return false;
  return unchanged || (!how.sort_a && !how.sort_b && !how.other_values && how.twist == Variation::Twist::none);
}

std::vector<Variation> variations() {
  std::vector<Variation> out;
  for (bool backward : {false, true}) {
    for (bool other_values : {false, true}) {
      for (int sorted = 0; sorted < 4; ++sorted) {
        out.push_back({backward, (sorted & 1) != 0, (sorted & 2) != 0, other_values});
      }
      for (Variation::Twist twist : {Variation::Twist::shuffled, Variation::Twist::nameless}) {
        out.push_back({backward, false, false, other_values, twist});
      }
    }
  }
  return out;
}

void try_case(const Case& of, test::GoldenRun& run) {
  for (const Variation& how : variations()) {
    std::string id = id_of(of, how);
    test::guarded(run, id, [&] {
      Outcome outcome = try_out(of, how);
      std::string why;
      if (outcome.wrong > 0) why = std::to_string(outcome.wrong) + " wrong, first " + outcome.first_wrong;
      if (must_be_complete(of, how) && outcome.open > 0) {
        why += " " + std::to_string(outcome.open) + " not decided, first " + outcome.first_open;
      }
      run.check(id, why.empty(), why);
      if (std::getenv("CKPT_ALIGN_VERBOSE") != nullptr) {
        std::printf("%-50s %4zu of %4zu not decided\n", id.c_str(), outcome.open, of.b.size());
      }
    });
  }
}

}  // namespace

int main() {
  return test::golden_main("align cases", "align/cases.json", [](Json root, test::GoldenRun& run) {
    for (Json json : test::items(test::member(root, "cases"))) try_case(case_of(json), run);
  });
}
