// Loads UCX with dlopen and creates its contexts.
#include "karez/comm/transport/ucx_library.h"

#if __has_include(<ucp/api/ucp.h>)

#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <type_traits>

#include "karez/base/error.h"

namespace karez::comm {

UcxLibrary::UcxLibrary() {
  setenv("UCX_HANDLE_ERRORS", "none", 0);  // otherwise UCX handles the signals of this process
  void* handle = dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    load_error = dlerror();
    return;
  }
  auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
    if (function == nullptr) load_error = cat("libucp.so.0 has no ", name);
  };
  find(init, "ucp_init_version");
  find(cleanup, "ucp_cleanup");
  find(config_read, "ucp_config_read");
  find(config_modify, "ucp_config_modify");
  find(config_release, "ucp_config_release");
  find(worker_create, "ucp_worker_create");
  find(worker_destroy, "ucp_worker_destroy");
  find(address, "ucp_worker_get_address");
  find(release_address, "ucp_worker_release_address");
  find(descriptor, "ucp_worker_get_efd");
  find(arm, "ucp_worker_arm");
  find(progress, "ucp_worker_progress");
  find(ep_create, "ucp_ep_create");
  find(ep_close, "ucp_ep_close_nbx");
  find(ep_flush, "ucp_ep_flush_nbx");
  find(send, "ucp_stream_send_nbx");
  find(receive, "ucp_stream_recv_data_nb");
  find(release, "ucp_stream_data_release");
  find(status, "ucp_request_check_status");
  find(free, "ucp_request_free");
  find(status_text, "ucs_status_string");
}

void UcxLibrary::require(ucs_status_t status, std::string_view action) const {
  base::require(ErrorKind::device, status == UCS_OK, "UCX cannot ", action, ": ", status_text(status));
}

const UcxLibrary& ucx_library() {
  static const UcxLibrary library;
  return library;
}

UcxContext::UcxContext(const std::string& transports) {
  const UcxLibrary& ucx = ucx_library();
  ucp_config_t* config = nullptr;
  ucx.require(ucx.config_read(nullptr, nullptr, &config), "read its configuration");
  ucs_status_t status = transports.empty() ? UCS_OK : ucx.config_modify(config, "TLS", transports.c_str());
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_STREAM | UCP_FEATURE_WAKEUP;
  if (status == UCS_OK) status = ucx.init(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context_);
  ucx.config_release(config);
  ucx.require(status, "start");
}

UcxContext::~UcxContext() { ucx_library().cleanup(context_); }

ucp_worker_h UcxContext::create_worker() const {
  ucp_worker_h worker = nullptr;
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  ucx_library().require(ucx_library().worker_create(context_, &params, &worker), "create a worker");
  return worker;
}

std::shared_ptr<UcxContext> UcxContext::shared(const std::string& transports) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<UcxContext>> contexts;
  std::lock_guard lock(mutex);
  auto out = contexts[transports].lock();
  if (out == nullptr) contexts[transports] = out = std::make_shared<UcxContext>(transports);
  return out;
}

}  // namespace karez::comm

#endif
