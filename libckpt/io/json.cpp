#include "libckpt/io/json.h"

#include <simdjson.h>

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cmath>
#include <new>

#include "libckpt/io/json_scan.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;
using simdjson::dom::element;
using simdjson::dom::element_type;

/// Two equal keys of one object: which object (in order of the opening braces) and which of its members.
struct DuplicateKey {
  std::size_t object = 0;
  std::size_t first = 0;
  std::size_t second = 0;
  std::string name;
};

/// Walks the whole document without recursion and looks for a key that an object has twice. Sorting, not hashing: a
/// file cannot choose its keys so that it becomes slow.
class DuplicateFinder {
 public:
  std::optional<DuplicateKey> find(element root) {
    stack_.push_back(root);
    while (!stack_.empty()) {
      element node = stack_.back();
      stack_.pop_back();
      if (node.type() == element_type::OBJECT) {
        if (!check(simdjson::dom::object(node))) return found_;
      } else if (node.type() == element_type::ARRAY) {
        push_reversed(simdjson::dom::array(node));
      }
    }
    return std::nullopt;
  }

 private:
  bool check(simdjson::dom::object object) {
    keys_.clear();
    std::size_t first_child = stack_.size();
    for (auto [key, value] : object) {
      keys_.emplace_back(key, keys_.size());
      push_container(value);
    }
    std::reverse(stack_.begin() + static_cast<std::ptrdiff_t>(first_child), stack_.end());
    std::sort(keys_.begin(), keys_.end());
    auto twin =
        std::adjacent_find(keys_.begin(), keys_.end(), [](const auto& a, const auto& b) { return a.first == b.first; });
    if (twin != keys_.end()) found_ = {objects_, twin->second, std::next(twin)->second, std::string(twin->first)};
    ++objects_;
    return twin == keys_.end();
  }

  void push_reversed(simdjson::dom::array array) {
    std::size_t first_child = stack_.size();
    for (element item : array) push_container(item);
    std::reverse(stack_.begin() + static_cast<std::ptrdiff_t>(first_child), stack_.end());
  }

  void push_container(element value) {
    if (value.type() == element_type::OBJECT || value.type() == element_type::ARRAY) stack_.push_back(value);
  }

  std::vector<element> stack_;
  std::vector<std::pair<std::string_view, std::size_t>> keys_;
  std::size_t objects_ = 0;
  DuplicateKey found_;
};

[[noreturn]] void throw_parse_error(simdjson::error_code error, const JsonOptions& options) {
  std::string what(options.what);
  if (error == simdjson::DEPTH_ERROR) {
    throw Error(ErrorCode::refused,
                what + " is nested deeper than " + std::to_string(options.max_depth) + " levels, which is the limit");
  }
  if (error == simdjson::MEMALLOC) throw std::bad_alloc();
  throw Error(ErrorCode::corrupt, what + " is not valid: " + simdjson::error_message(error));
}

void require_no_duplicates(element root, std::string_view text, const JsonOptions& options) {
  std::optional<DuplicateKey> twin = DuplicateFinder().find(root);
  if (!twin) return;
  std::vector<std::uint64_t> keys = detail::json_key_offsets(text, twin->object);
  throw Error(ErrorCode::corrupt, std::string(options.what) + " has the key " + core::quote(twin->name) +
                                      " twice in one object, at bytes " +
                                      std::to_string(options.offset + keys[twin->first]) + " and " +
                                      std::to_string(options.offset + keys[twin->second]));
}

/// Whether an integer has a place in 64 bits.
bool fits_64_bits(std::string_view digits) {
  std::int64_t number = 0;
  std::uint64_t count = 0;
  const char* end = digits.data() + digits.size();
  return std::from_chars(digits.data(), end, number).ec == std::errc() ||
         std::from_chars(digits.data(), end, count).ec == std::errc();
}

/// The text with integers past 64 bits written as real numbers; empty where it has none.
core::ByteVector with_long_integers_as_reals(std::string_view text) {
  constexpr std::string_view kNumber = "0123456789+-.eE";
  core::ByteVector out;
  bool quoted = false, found = false;
  for (std::size_t i = 0; i < text.size();) {
    const bool number = !quoted && (text[i] == '-' || (text[i] >= '0' && text[i] <= '9'));
    const std::size_t end = number ? std::min(text.find_first_not_of(kNumber, i), text.size())
                                   : std::min(i + (quoted && text[i] == '\\' ? 2 : 1), text.size());
    const std::string_view part = text.substr(i, end - i);
    if (part == "\"") quoted = !quoted;
    core::append(out, core::as_bytes(part));
    if (number && part.find_first_of("+.eE") == std::string_view::npos && !fits_64_bits(part)) {
      core::append(out, core::as_bytes(std::string_view("e0")));
      found = true;
    }
    i = end;
  }
  return found ? out : core::ByteVector();
}

}  // namespace

struct JsonDocument::State {
  core::ByteVector padded;
  std::size_t size = 0;
  simdjson::dom::parser parser;
  element root;

  std::string_view text() const { return core::as_text(padded).substr(0, size); }
  simdjson::error_code parse(const core::ByteVector& with_padding, std::size_t length) {
    return parser.parse(reinterpret_cast<const char*>(with_padding.data()), length, false).get(root);
  }
  /// The parser holds no integer past 64 bits: then those are read as real numbers.
  simdjson::error_code parse() {
    const simdjson::error_code error = parse(padded, size);
    if (error != simdjson::NUMBER_ERROR) return error;
    core::ByteVector reals = with_long_integers_as_reals(text());
    if (reals.empty()) return error;
    const std::size_t length = reals.size();
    reals.resize(length + simdjson::SIMDJSON_PADDING);
    return parse(reals, length);
  }
};

struct JsonView::Access {
  static_assert(sizeof(element) <= sizeof(JsonView::node_) && std::is_trivially_copyable_v<element>);
  static element get(const JsonView& view) {
    element node;
    std::memcpy(static_cast<void*>(&node), view.node_, sizeof node);
    return node;
  }
  static JsonView make(element node) {
    JsonView view;
    std::memcpy(view.node_, static_cast<const void*>(&node), sizeof node);
    return view;
  }
};

JsonDocument::JsonDocument(std::unique_ptr<State> state) : state_(std::move(state)) {}
JsonDocument::JsonDocument(JsonDocument&&) noexcept = default;
JsonDocument& JsonDocument::operator=(JsonDocument&&) noexcept = default;
JsonDocument::~JsonDocument() = default;

JsonDocument JsonDocument::parse(core::ByteVector text, const JsonOptions& options) {
  auto state = std::make_unique<State>();
  state->size = text.size();
  state->padded = std::move(text);
  state->padded.resize(state->size + simdjson::SIMDJSON_PADDING);
  std::string_view view = state->text();
  if (view.starts_with("\xef\xbb\xbf")) {
    throw Error(ErrorCode::corrupt, std::string(options.what) + " begins with a byte order mark");
  }
  simdjson::error_code error = state->parser.allocate(std::max<std::size_t>(state->size, 64), options.max_depth);
  if (error == simdjson::SUCCESS) error = state->parse();
  if (error != simdjson::SUCCESS) throw_parse_error(error, options);
  require_no_duplicates(state->root, view, options);
  if (std::optional<std::uint64_t> at = detail::find_negative_zero(view)) {
    throw Error(ErrorCode::corrupt, std::string(options.what) + " has the number -0 at byte " +
                                        std::to_string(options.offset + *at) + ", which is not a count");
  }
  return JsonDocument(std::move(state));
}

JsonDocument JsonDocument::parse(std::string_view text, const JsonOptions& options) {
  core::Bytes bytes = core::as_bytes(text);
  return parse(core::ByteVector(bytes.begin(), bytes.end()), options);
}

JsonView JsonDocument::root() const {
  return JsonView::Access::make(state_->root);
}

std::string_view JsonDocument::text() const {
  return state_->text();
}

std::vector<JsonSpan> JsonDocument::member_spans() const {
  return detail::json_member_spans(state_->text());
}

JsonView::Kind JsonView::kind() const {
  switch (Access::get(*this).type()) {
    case element_type::BOOL:
      return Kind::boolean;
    case element_type::INT64:
      return Kind::integer;
    case element_type::UINT64:
      return Kind::unsigned_integer;
    case element_type::DOUBLE:
      return Kind::real;
    case element_type::STRING:
      return Kind::text;
    case element_type::ARRAY:
      return Kind::array;
    case element_type::OBJECT:
      return Kind::object;
    default:
      return Kind::null;
  }
}

bool JsonView::as_boolean() const {
  return bool(Access::get(*this));
}
std::int64_t JsonView::as_integer() const {
  return std::int64_t(Access::get(*this));
}
std::uint64_t JsonView::as_unsigned() const {
  return std::uint64_t(Access::get(*this));
}
double JsonView::as_real() const {
  return double(Access::get(*this));
}
std::string_view JsonView::as_text() const {
  return std::string_view(Access::get(*this));
}

std::vector<JsonView> JsonView::items() const {
  std::vector<JsonView> out;
  const simdjson::dom::array array(Access::get(*this));
  out.reserve(array.size());
  for (element item : array) out.push_back(Access::make(item));
  return out;
}

std::vector<std::pair<std::string_view, JsonView>> JsonView::members() const {
  std::vector<std::pair<std::string_view, JsonView>> out;
  const simdjson::dom::object object(Access::get(*this));
  out.reserve(object.size());
  for (auto [key, value] : object) out.emplace_back(key, Access::make(value));
  return out;
}

bool JsonView::has(std::string_view key) const {
  element found;
  return is(Kind::object) && simdjson::dom::object(Access::get(*this)).at_key(key).get(found) == simdjson::SUCCESS;
}

JsonView JsonView::at(std::string_view key) const {
  element found;
  if (!is(Kind::object) || simdjson::dom::object(Access::get(*this)).at_key(key).get(found) != simdjson::SUCCESS) {
    throw Error(ErrorCode::corrupt, "the JSON key " + core::quote(key) + " is missing");
  }
  return Access::make(found);
}

bool JsonView::is_count() const {
  return is(Kind::integer) && as_integer() >= 0;
}

}  // namespace ckpt
