#include "tools/ckpt/line/open_addresses.h"

#include "libckpt/remote/remote.h"
#include "tools/ckpt/line/options.h"

namespace cli {

void let_open_addresses() {
  ckpt::RemoteOptions options;
  options.insecure_http = remote_access().insecure_http;
  options.ca_file = remote_access().ca_file;
  options.insecure_http_name = "--insecure-http";
  options.ca_file_name = "--cacert FILE";
  ckpt::enable_remote_files(std::move(options));
}

}  // namespace cli
