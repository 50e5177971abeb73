#pragma once
// What a Keras file says of its layers: config.json of a .keras archive, model_config of an .h5 file. Internal to
// libckpt/keras.
// Thread safety: immutable once read. Use: auto config = KerasConfig::read(checkpoint);
// config->root().by_name("conv1");

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libckpt/io/json.h"

namespace ckpt::detail {

/// Whose output goes in: of which layer, and of which call of it.
struct KerasInput {
  std::string name;
  std::size_t call = 0;
  std::int64_t tensor = 0;
};

/// A layer, or a model of layers.
struct KerasNode {
  std::string kind;       ///< its class: "Conv2D"; of one that somebody wrote "Custom>Conv2D"
  std::string name;       ///< "conv1"
  std::string container;  ///< what the file of weights calls it: "conv2d_3"
  JsonView config = {};
  JsonView whole = {};                              ///< with "build_config"
  std::optional<JsonView> cell = {};                ///< the configuration of the cell that an RNN is around
  std::vector<std::vector<KerasInput>> calls = {};  ///< "inbound_nodes"
  std::vector<KerasNode> children = {};
  std::map<std::string, std::size_t, std::less<>> names = {};       ///< of children, the first of each
  std::map<std::string, std::size_t, std::less<>> containers = {};  ///< of children
  std::vector<KerasNode> wrapped =
      {};  ///< of Bidirectional and TimeDistributed: the layer inside, then the backward one

  const KerasNode* by_container(std::string_view container) const;
  const KerasNode* by_name(std::string_view name) const;
  std::size_t inputs() const;  ///< of all calls

  bool is_custom() const { return kind.find('>') != std::string::npos; }

  // What the configuration says, where it says something of that kind.
  std::optional<JsonView> said(std::string_view field) const;  ///< also of the cell
  std::optional<bool> flag(std::string_view field) const;
  std::optional<double> number(std::string_view field) const;
  std::string text(std::string_view field) const;  ///< of an activation its name; "" for none
  /// Whether it says anything but `text`.
  bool says_other(std::string_view field, std::string_view text) const;
  std::vector<std::int64_t> integers(std::string_view field) const;
  std::optional<std::int64_t> axis() const;  ///< of a norm; -1 where nothing is said, nullopt for several
  std::size_t input_rank() const;            ///< with the dimension of the batch; 0 where nothing says it
};

class KerasConfig {
 public:
  /// nullopt where the file says nothing, or nothing that is JSON.
  static std::optional<KerasConfig> read(const Checkpoint& checkpoint);

  const KerasNode& root() const { return root_; }

 private:
  explicit KerasConfig(JsonDocument document);

  JsonDocument document_;
  KerasNode root_;
};

/// Adds all under a node of "inbound_nodes", or under "output_layers", in order. No layer has as many as are left out.
void take_keras_inputs(const JsonView& view, std::vector<KerasInput>& out);

/// "conv2d_transpose" of "Conv2DTranspose", as Keras makes names of classes.
std::string keras_snake_case(std::string_view name);

}  // namespace ckpt::detail
