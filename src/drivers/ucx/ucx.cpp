#include "drivers/ucx/ucx.hpp"

#include "drivers/ucx/library.hpp"
#include "drivers/ucx/silent_hosts.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <deque>
#include <thread>
#include <utility>
#include <vector>

namespace sennit {
namespace {

using ucx::Functions;

constexpr unsigned kMessageId = 0;
// To cut a connection off takes microseconds; a peer that is stuck cannot delay it.
constexpr std::chrono::seconds kCloseTime{1};
// What is to be sent at last leaves in microseconds, unless a peer is gone or stuck.
constexpr std::chrono::milliseconds kLeaveTime{100};
constexpr std::chrono::milliseconds kLeaveNap{1};

class Card final : public UcxCard {
 public:
  explicit Card(const Functions& functions) : functions_(functions) {}
  ~Card() override;
  Card(const Card&) = delete;
  Card& operator=(const Card&) = delete;

  Status open(const UcxCardOptions& options);

  [[nodiscard]] const std::string& address() const override { return address_; }
  void set_handler(Handler handler) override { handler_ = std::move(handler); }
  Result<int> connect(std::string_view address) override;
  void send(int endpoint,
            std::span<const std::byte> header,
            std::span<const std::byte> payload,
            MessageState& state) override;
  [[nodiscard]] bool ends_when_left() const override { return !is_rdma_; }
  [[nodiscard]] Status failure(int endpoint) const override {
    const Endpoint& asked = endpoints_[static_cast<std::size_t>(endpoint)];
    return asked.failure.ok() && asked.is_silent
               ? fail(Code::kSystemError,
                      "{} acknowledges nothing that is sent to it; a card, its cable or its switch "
                      "may be down",
                      asked.host)
               : asked.failure;
  }
  void notice_silence() override;
  void close(int endpoint) override;
  bool progress() override { return functions_.ucp_worker_progress(worker_) != 0; }
  [[nodiscard]] int descriptor() const override { return descriptor_; }
  bool arm() override { return functions_.ucp_worker_arm(worker_) == UCS_OK; }

 private:
  struct Endpoint {
    Card* card = nullptr;
    ucp_ep_h handle = nullptr;
    std::string host{};  // of the other end, over TCP
    bool is_silent = false;
    Status failure{};
  };
  // What UCX reads or calls back with until a request has ended.
  struct Request {
    Card* card = nullptr;
    const Endpoint* endpoint = nullptr;
    MessageState* state = nullptr;  // null: nobody waits for it
    std::array<std::byte, kMostHeaderBytes> header{};
  };

  static ucs_status_t on_message(void* card,
                                 const void* header,
                                 std::size_t header_bytes,
                                 void* payload,
                                 std::size_t payload_bytes,
                                 const ucp_am_recv_param_t* how);
  static void on_sent(void* request, ucs_status_t status, void* own);
  static void on_failure(void* endpoint, ucp_ep_h handle, ucs_status_t status);

  Status check(ucs_status_t status, std::string_view what) const {
    return status == UCS_OK ? Status()
                            : fail(Code::kSystemError,
                                   "{} failed: {}",
                                   what,
                                   functions_.ucs_status_string(status));
  }
  Request* take_request(const Endpoint& endpoint, MessageState& state);
  ucp_request_param_t parameters(Request* request) const;
  void follow(ucs_status_ptr_t result, Request* request, Endpoint& endpoint);
  void end_request(Request* request, ucs_status_t status);
  bool send_all();
  Status open_context(const UcxCardOptions& options);
  Status open_worker();

  Functions functions_;
  bool is_rdma_ = false;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  std::string host_;  // of this end, over TCP
  std::string address_;
  int descriptor_ = -1;
  Handler handler_;
  std::deque<Endpoint> endpoints_;  // UCX knows their addresses
  std::deque<Request> requests_;
  std::vector<Request*> free_requests_;
};

Status Card::open(const UcxCardOptions& options) {
  const ucx::CrashSignalsScope signals;
  is_rdma_ = options.is_rdma;
  host_ = is_rdma_ ? std::string() : ucx::host_of(options.device);
  SENNIT_RETURN_IF_ERROR(open_context(options));
  return open_worker();
}

Status Card::open_context(const UcxCardOptions& options) {
  ucp_config_t* config = nullptr;
  SENNIT_RETURN_IF_ERROR(
      check(functions_.ucp_config_read("SENNIT", nullptr, &config), "reading UCX's settings"));
  // Its warnings go to standard output, which is the program's.
  functions_.ucp_config_modify(config, "LOG_LEVEL", "fatal");
  functions_.ucp_config_modify(config, "NET_DEVICES", options.device.c_str());
  // What lies in the memory of one machine is not a card's.
  functions_.ucp_config_modify(config, "TLS", options.is_rdma ? "^sm" : "tcp");
  if (!options.is_rdma) {
    // Copied messages end while a part of them may wait for room in the socket.
    functions_.ucp_config_modify(config, "ZCOPY_THRESH", "1");
    // Else connect() would stop the thread for minutes where a card does not reach the other. UCX
    // 1.13 knows the setting without its prefix.
    functions_.ucp_config_modify(config, "CONN_NB", "y");
    functions_.ucp_config_modify(config, "TCP_CONN_NB", "y");
  }
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  const ucs_status_t status =
      functions_.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context_);
  functions_.ucp_config_release(config);
  return check(status, fmt::format("opening card {} with UCX", options.device));
}

Status Card::open_worker() {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  SENNIT_RETURN_IF_ERROR(
      check(functions_.ucp_worker_create(context_, &params, &worker_), "making a worker of UCX"));
  SENNIT_RETURN_IF_ERROR(check(functions_.ucp_worker_get_efd(worker_, &descriptor_),
                               "asking UCX for a descriptor to sleep on"));
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                       UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kMessageId;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG;
  handler.cb = &Card::on_message;
  handler.arg = this;
  SENNIT_RETURN_IF_ERROR(check(functions_.ucp_worker_set_am_recv_handler(worker_, &handler),
                               "naming UCX the receiver of messages"));
  ucp_address_t* address = nullptr;
  std::size_t bytes = 0;
  SENNIT_RETURN_IF_ERROR(check(functions_.ucp_worker_get_address(worker_, &address, &bytes),
                               "asking UCX for a card's address"));
  address_ = static_cast<char>(host_.size()) + host_;
  address_.append(reinterpret_cast<const char*>(address), bytes);
  functions_.ucp_worker_release_address(worker_, address);
  return {};
}

Card::~Card() {
  handler_ = nullptr;  // what it uses may be gone
  for (std::size_t e = 0; e < endpoints_.size(); ++e) {
    close(static_cast<int>(e));
  }
  if (worker_ != nullptr) {
    if (!send_all()) {
      // UCX 1.13 aborts the process if that is its own answer to a new connection. So the worker
      // stays until the process ends; nothing runs it any more.
      return;
    }
    functions_.ucp_worker_destroy(worker_);
  }
  if (context_ != nullptr) {
    functions_.ucp_cleanup(context_);
  }
}

// Also what UCX sends on its own. False: some of it cannot leave.
bool Card::send_all() {
  const ucp_request_param_t params{};
  const ucs_status_ptr_t flush = functions_.ucp_worker_flush_nbx(worker_, &params);
  const auto is_under_way = [&] {
    return UCS_PTR_IS_PTR(flush) && functions_.ucp_request_check_status(flush) == UCS_INPROGRESS;
  };
  const auto end = std::chrono::steady_clock::now() + kLeaveTime;
  while (is_under_way() && std::chrono::steady_clock::now() < end) {
    if (!progress()) {
      std::this_thread::sleep_for(kLeaveNap);
    }
  }
  const bool is_done = !is_under_way();
  if (is_done && UCS_PTR_IS_PTR(flush)) {
    functions_.ucp_request_free(flush);
  }
  return is_done;
}

// An address is the length of the host, the host, and UCX's address.
Result<int> Card::connect(std::string_view address) {
  const std::size_t length = address.empty() ? 0 : static_cast<unsigned char>(address.front());
  if (address.size() <= length + 1) {
    return fail(Code::kSystemError, "a peer's card has an address that is none");
  }
  Endpoint& endpoint = endpoints_.emplace_back(
      Endpoint{.card = this, .host = std::string(address.substr(1, length))});
  address.remove_prefix(length + 1);
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {.cb = &Card::on_failure, .arg = &endpoint};
  const Status status = check(functions_.ucp_ep_create(worker_, &params, &endpoint.handle),
                              "connecting a card to a peer's");
  if (!status.ok()) {
    endpoints_.pop_back();
    return status;
  }
  return static_cast<int>(endpoints_.size()) - 1;
}

void Card::notice_silence() {
  const std::vector<std::string> silent = ucx::silent_hosts(host_);
  for (Endpoint& endpoint : endpoints_) {
    endpoint.is_silent = std::ranges::find(silent, endpoint.host) != silent.end();
  }
}

Card::Request* Card::take_request(const Endpoint& endpoint, MessageState& state) {
  if (free_requests_.empty()) {
    free_requests_.push_back(&requests_.emplace_back());
  }
  Request* const request = free_requests_.back();
  free_requests_.pop_back();
  request->card = this;
  request->endpoint = &endpoint;
  request->state = &state;
  state = MessageState::kUnderWay;
  return request;
}

ucp_request_param_t Card::parameters(Request* request) const {
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  params.cb.send = &Card::on_sent;
  params.user_data = request;
  return params;
}

void Card::send(int endpoint,
                std::span<const std::byte> header,
                std::span<const std::byte> payload,
                MessageState& state) {
  SENNIT_CHECK(header.size() <= kMostHeaderBytes, "a header is too long");
  Endpoint& to = endpoints_[static_cast<std::size_t>(endpoint)];
  if (to.handle == nullptr || !to.failure.ok()) {
    state = MessageState::kFailed;
    return;
  }
  Request* const request = take_request(to, state);
  std::memcpy(request->header.data(), header.data(), header.size());
  ucp_request_param_t params = parameters(request);
  // Of a rendezvous, over TCP, the handshake waits behind the bulk of the other direction.
  params.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
  // Without immediate completion UCX copies no small message on a way of its own. Fast completion
  // copies all.
  params.op_attr_mask |= is_rdma_ ? UCP_OP_ATTR_FLAG_FAST_CMPL : UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  params.flags = UCP_AM_SEND_FLAG_EAGER;
  follow(functions_.ucp_am_send_nbx(to.handle,
                                    kMessageId,
                                    request->header.data(),
                                    header.size(),
                                    payload.data(),
                                    payload.size(),
                                    &params),
         request,
         to);
}

// A request that ended at once has called back, or the result says so.
void Card::follow(ucs_status_ptr_t result, Request* request, Endpoint& endpoint) {
  if (result == nullptr) {
    end_request(request, UCS_OK);
  } else if (UCS_PTR_IS_ERR(result)) {
    if (endpoint.failure.ok()) {
      endpoint.failure = check(UCS_PTR_STATUS(result), "sending");
    }
    end_request(request, UCS_PTR_STATUS(result));
  }
}

void Card::end_request(Request* request, ucs_status_t status) {
  if (request->state != nullptr) {
    *request->state = status == UCS_OK ? MessageState::kDone : MessageState::kFailed;
    request->state = nullptr;
  }
  free_requests_.push_back(request);
}

void Card::close(int endpoint) {
  Endpoint& closed = endpoints_[static_cast<std::size_t>(endpoint)];
  if (closed.handle == nullptr) {
    return;
  }
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  params.flags = UCP_EP_CLOSE_FLAG_FORCE;
  const ucs_status_ptr_t request =
      functions_.ucp_ep_close_nbx(std::exchange(closed.handle, nullptr), &params);
  // UCX may have given it back although it still reads what is under way.
  const auto is_under_way = [&](const Request& left) {
    return left.endpoint == &closed && left.state != nullptr;
  };
  const auto end = std::chrono::steady_clock::now() + kCloseTime;
  while (std::ranges::any_of(requests_, is_under_way) && std::chrono::steady_clock::now() < end) {
    progress();
  }
  if (request != nullptr && !UCS_PTR_IS_ERR(request)) {
    functions_.ucp_request_free(request);
  }
  if (closed.failure.ok()) {
    closed.failure = fail(Code::kSystemError, "the connection was closed by this end");
  }
  // What UCX should still hold on to has to leave the states alone.
  for (Request& left : requests_) {
    if (left.endpoint == &closed && left.state != nullptr) {
      *std::exchange(left.state, nullptr) = MessageState::kFailed;
    }
  }
}

ucs_status_t Card::on_message(void* card,
                              const void* header,
                              std::size_t header_bytes,
                              void* payload,
                              std::size_t payload_bytes,
                              const ucp_am_recv_param_t* how) {
  // Nobody who keeps to the protocol sends a rendezvous; UCX drops it.
  const bool has_data = (how->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0;
  const auto& self = *static_cast<const Card*>(card);
  if (has_data && self.handler_) {
    self.handler_({static_cast<const std::byte*>(header), header_bytes},
                  {static_cast<const std::byte*>(payload), payload_bytes});
  }
  return UCS_OK;
}

void Card::on_sent(void* request, ucs_status_t status, void* own) {
  auto* const sent = static_cast<Request*>(own);
  Card& card = *sent->card;
  card.end_request(sent, status);
  card.functions_.ucp_request_free(request);
}

void Card::on_failure(void* endpoint, ucp_ep_h /*handle*/, ucs_status_t status) {
  auto& failed = *static_cast<Endpoint*>(endpoint);
  if (failed.failure.ok()) {
    failed.failure = failed.card->check(status, "the connection");
  }
}

class Library final : public UcxDriver {
 public:
  explicit Library(const Functions& functions) : functions_(functions) {}

  std::string version() override { return functions_.ucp_get_version_string(); }

  Result<std::unique_ptr<UcxCard>> open(const UcxCardOptions& options) override {
    auto card = std::make_unique<Card>(functions_);
    SENNIT_RETURN_IF_ERROR(card->open(options));
    return std::unique_ptr<UcxCard>(std::move(card));
  }

 private:
  Functions functions_;
};

Result<std::unique_ptr<UcxDriver>> open_driver() {
  const ucx::CrashSignalsScope signals;
  SENNIT_ASSIGN_OR_RETURN(const Functions functions, ucx::open_library());
  return std::unique_ptr<UcxDriver>(std::make_unique<Library>(functions));
}

}  // namespace

Result<UcxDriver*> ucx_of_this_machine() {
  static const Result<std::unique_ptr<UcxDriver>> kLibraryHere = open_driver();
  if (!kLibraryHere.ok()) {
    return kLibraryHere.status();
  }
  return kLibraryHere.value().get();
}

}  // namespace sennit
