#pragma once
// Names of files of a model hub: "hf://org/repo@revision/file" as the address from which the hub gives it, and which
// files a folder there has. Thread safety: plain values. Use: HubName name = parse_hub_name("hf://org/repo");

#include <string>
#include <string_view>
#include <vector>

#include "libckpt/remote/url.h"

namespace ckpt::detail {

struct HubName {
  std::string repository;         ///< "org/repo"
  std::string revision = "main";  ///< a branch, tag or commit
  std::string file;               ///< "" for the repository itself; ends with '/' for a folder that was written so
  bool names_revision = false;    ///< the user wrote it

  /// A name without an extension is a folder: files of models have one.
  bool is_folder() const;
  /// "hf://org/repo@rev/" + file.
  std::string name_of(std::string_view file) const;
};

bool is_hub_name(std::string_view name);
/// Errors: Error(usage) saying what such a name looks like.
HubName parse_hub_name(std::string_view name);

/// Where hf:// leads: `asked`, else $HF_ENDPOINT, else huggingface.co. Errors: those of parse_url().
Url hub_of(const std::string& asked);
/// $HF_TOKEN, else the file token of $HF_HOME or ~/.cache/huggingface; "" for none.
std::string hub_token();

/// The address of the file, at `revision`.
Url file_url(const Url& hub, const HubName& name, const std::string& revision);
/// The address of the list of files of the folder.
Url list_url(const Url& hub, const HubName& name, const std::string& revision);
/// Names of files in such a list, without their folder. Errors: Error(corrupt).
std::vector<std::string> files_in_list(const std::string& json);

/// Names that models have in folders, the likeliest first.
const std::vector<std::string>& usual_models();
/// The file that a folder stands for, by the same rule as for folders of this machine. Errors: Error(usage |
/// unsupported) naming what is there.
std::string model_among(const std::vector<std::string>& files);

}  // namespace ckpt::detail
