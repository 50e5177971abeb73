#include "tools/python/bindings/remote.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>

#include "libckpt/remote/remote.h"

namespace nb = nanobind;

namespace python {
namespace {

void set_remote(bool insecure_http, const std::filesystem::path& ca_file, const std::string& hub,
                std::uint64_t max_memory) {
  ckpt::RemoteOptions options;
  options.insecure_http = insecure_http;
  options.ca_file = ca_file;
  options.hub = hub;
  options.max_memory = max_memory;
  options.insecure_http_name = "ckpt.remote(insecure_http=True)";
  options.ca_file_name = "ckpt.remote(ca_file=...)";
  ckpt::enable_remote_files(std::move(options));
}

}  // namespace

void bind_remote(nb::module_& module) {
  const ckpt::RemoteOptions usual;
  set_remote(false, {}, "", usual.max_memory);
  module.def(
      "remote", &set_remote, nb::kw_only(), nb::arg("insecure_http") = false,
      nb::arg("ca_file") = std::filesystem::path(), nb::arg("hub") = "", nb::arg("max_memory") = usual.max_memory,
      "How files on other machines are read from here on. insecure_http: also http:// to other machines; ca_file: "
      "certificates to trust in place of the system's; hub: where hf:// leads; max_memory: bytes.");
}

}  // namespace python
