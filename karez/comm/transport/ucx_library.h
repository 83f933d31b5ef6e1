// UCX library: its functions, loaded when first needed, and its contexts. Empty without UCX headers.
#pragma once

#if __has_include(<ucp/api/ucp.h>)

#include <ucp/api/ucp.h>

#include <memory>
#include <string>
#include <string_view>

#include "karez/comm/namespace.h"

namespace karez::comm {

struct UcxLibrary {
  decltype(&ucp_init_version) init;
  decltype(&ucp_cleanup) cleanup;
  decltype(&ucp_config_read) config_read;
  decltype(&ucp_config_modify) config_modify;
  decltype(&ucp_config_release) config_release;
  decltype(&ucp_worker_create) worker_create;
  decltype(&ucp_worker_destroy) worker_destroy;
  decltype(&ucp_worker_get_address) address;
  decltype(&ucp_worker_release_address) release_address;
  decltype(&ucp_worker_get_efd) descriptor;
  decltype(&ucp_worker_arm) arm;
  decltype(&ucp_worker_progress) progress;
  decltype(&ucp_ep_create) ep_create;
  decltype(&ucp_ep_close_nbx) ep_close;
  decltype(&ucp_ep_flush_nbx) ep_flush;
  decltype(&ucp_stream_send_nbx) send;
  decltype(&ucp_stream_recv_data_nb) receive;
  decltype(&ucp_stream_data_release) release;
  decltype(&ucp_request_check_status) status;
  decltype(&ucp_request_free) free;
  decltype(&ucs_status_string) status_text;
  std::string load_error;  // why the library is unusable; empty if it is loaded

  UcxLibrary();
  void require(ucs_status_t status, std::string_view action) const;
};
const UcxLibrary& ucx_library();

// A context for all wires of a process with the same transports; destroyed with the last of these wires.
class UcxContext {
 public:
  explicit UcxContext(const std::string& transports);
  ~UcxContext();
  UcxContext(const UcxContext&) = delete;
  UcxContext& operator=(const UcxContext&) = delete;
  ucp_worker_h create_worker() const;

  static std::shared_ptr<UcxContext> shared(const std::string& transports);

 private:
  ucp_context_h context_ = nullptr;
};

}  // namespace karez::comm

#endif
