#include <fmt/format.h>
#include <httplib.h>
#include <openssl/crypto.h>
#include <unistd.h>

#include <future>
#include <nlohmann/json.hpp>
#include <thread>

#include "asup/base/error.h"
#include "asup/base/fd.h"
#include "asup/base/log.h"
#include "asup/cli/live/live_page.h"
#include "asup/cli/live/news.h"
#include "asup/net/membership/key.h"
#include "asup/report/report.h"

namespace asup::cli {
namespace {

constexpr std::size_t kViewers = 16;  // at a time; each has a thread while it watches
constexpr auto kPatience = std::chrono::seconds(1);       // with a viewer that does not read
constexpr auto kFarewell = std::chrono::seconds(5);       // to tell viewers the end
constexpr auto kMoment = std::chrono::milliseconds(500);  // for the server to stop then

constexpr const char* kPolicy =
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

// 128 bits in 32 characters.
std::string random_token() {
  const net::Key key = net::random_key();
  std::string token;
  for (std::size_t i = 0; i < 16; ++i)
    token += fmt::format("{:02x}", static_cast<unsigned>(std::to_integer<unsigned char>(key[i])));
  return token;
}

bool is_everywhere(const std::string& host) { return host == "0.0.0.0" || host == "::"; }

std::string name_in_address(const std::string& host) {
  if (host.find(':') != host.npos && !is_everywhere(host)) return "[" + host + "]";
  char name[256] = "";
  if (is_everywhere(host) && ::gethostname(name, sizeof name - 1) == 0) return name;
  return host;
}

// The port that it listens on; 0 where it cannot.
int bind(httplib::Server& server, const train::LivePage& where) {
  server.set_socket_options([](socket_t socket) {  // no other process may share the port
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  if (where.port == 0) return std::max(0, server.bind_to_any_port(where.host));
  return server.bind_to_port(where.host, where.port) ? where.port : 0;
}

// Tried by hand, since a Server that is bound keeps its socket for good.
bool can_listen(const train::LivePage& where) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  if (::getaddrinfo(where.host.c_str(), std::to_string(where.port).c_str(), &hints, &found) != 0)
    return false;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
  const Fd fd(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  return ::bind(fd.get(), found->ai_addr, found->ai_addrlen) == 0 && ::listen(fd.get(), 1) == 0;
}

std::string cannot_serve(const train::LivePage& where) {
  return where.port == 0
             ? fmt::format("live: {} is no address of this host that can be listened on",
                           where.host)
             : fmt::format("live: port {} of {} cannot be listened on: it is in use, or not ours",
                           where.port, where.host);
}

std::string event(std::string_view name, std::string_view data) {
  return fmt::format("event: {}\ndata: {}\n\n", name, data);
}

// Lives until the last viewer is gone, which may be after the observer.
class Service {
 public:
  explicit Service(std::string token) : token_(std::move(token)) {
    server.new_task_queue = [] { return new httplib::ThreadPool(kViewers); };
    server.set_read_timeout(kPatience);
    server.set_write_timeout(kPatience);
    server.set_keep_alive_timeout(1);
    server.set_payload_max_length(0);
    server.set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& to) {
      answer(request, to);
      return httplib::Server::HandlerResponse::Handled;
    });
  }

  void set_folder(const std::string& folder) {
    const std::lock_guard lock(mutex_);
    folder_ = folder;
  }

  // Until all who read have been told the end, which takes a moment, unless the machine is busy.
  void wait_for_viewers() {
    std::unique_lock lock(mutex_);
    viewer_left_.wait_for(lock, kFarewell, [&] { return viewers_ == 0; });
  }

  httplib::Server server;
  News news;

 private:
  void answer(const httplib::Request& request, httplib::Response& to) {
    to.set_header("Cache-Control", "no-store");
    to.set_header("Referrer-Policy", "no-referrer");
    to.set_header("X-Content-Type-Options", "nosniff");
    to.set_header("Content-Security-Policy", kPolicy);
    const bool ours = request.method == "GET" && has_token(request.path);
    const std::string rest = ours ? request.path.substr(token_.size() + 1) : "";
    if (rest == "/")
      to.set_content(report::live_page(), "text/html; charset=utf-8");
    else if (rest == "/events")
      tell_news(to);
    else
      to.status = 404;
  }

  // In a time that does not depend on how much of it is right.
  bool has_token(const std::string& path) const {
    std::string given = path.substr(0, token_.size() + 1);
    given.resize(token_.size() + 1);
    return CRYPTO_memcmp(given.data(), ("/" + token_).data(), given.size()) == 0;
  }

  void tell_news(httplib::Response& to) {
    count_viewers(1);
    auto place = std::make_shared<News::Place>();
    to.set_chunked_content_provider(
        "text/event-stream",
        [this, place](std::size_t, httplib::DataSink& sink) {
          const News::Update update = news.next(*place);
          const std::string text = update.whole ? whole_run(*place) : rows_of(update);
          if (!sink.write(text.data(), text.size())) return false;
          if (!update.last) return true;
          const std::string end = event("end", "{}");
          sink.write(end.data(), end.size());
          sink.done();
          return true;
        },
        [this](bool) { count_viewers(-1); });
  }

  void count_viewers(int more) {
    const std::lock_guard lock(mutex_);
    viewers_ += more;
    viewer_left_.notify_all();
  }

  static std::string rows_of(const News::Update& update) {
    std::string text = ":\n\n";  // a comment: shows whether the viewer is still there
    for (const std::string& row : update.rows) text += event("row", row);
    return text;
  }

  // Reading a long run takes a while, and must not take the time that training wants.
  std::string whole_run(News::Place& place) {
    const auto began = Clock::now();
    std::string folder;
    {
      const std::lock_guard lock(mutex_);
      folder = folder_;
    }
    std::string text;
    try {
      text = event("run", report::run_as_json(folder));
    } catch (const std::exception& error) {  // its files are being replaced: the next time
      log().info("live: {}", error.what());
      place.version = 0;
      text = ":\n\n";
    }
    const auto took = Clock::now() - began;
    place.whole_due = Clock::now() + std::max<Clock::duration>(kPatience, 20 * took);
    return text;
  }

  const std::string token_;
  std::mutex mutex_;
  std::condition_variable viewer_left_;
  // Protected by mutex_.
  std::string folder_;
  int viewers_ = 0;
};

class LivePage : public report::Observer {
 public:
  LivePage(const train::LivePage& where, const report::Terminal& terminal)
      : where_(where), terminal_(terminal) {}

  ~LivePage() override {
    if (!thread_.joinable()) return;
    service_->news.end();
    service_->wait_for_viewers();
    service_->server.stop();
    // Who does not read what is sent to him holds nobody up: his thread ends with the process.
    ended_.wait_for(kMoment) == std::future_status::ready ? thread_.join() : thread_.detach();
  }

  void started(const report::RunFacts& facts) override {
    if (!service_) serve();
    service_->set_folder(facts.folder);
    service_->news.change();
  }
  void logged(const report::StepRecord& record) override { row(to_json(record)); }
  void evaluated(const report::EvalRecord& record) override {
    row(to_json(record));
    service_->news.change();
  }
  void switched_strategy(std::int64_t, const std::string&) override { service_->news.change(); }
  void ended(const report::Summary&) override { service_->news.change(); }
  void failed(const std::string&) override { service_->news.change(); }

 private:
  void serve() {
    const std::string token = random_token();
    service_ = std::make_shared<Service>(token);
    const int port = bind(service_->server, where_);
    if (port == 0) return log().warn("{}. The run goes on without its page", cannot_serve(where_));
    std::promise<void> end;
    ended_ = end.get_future();
    thread_ = std::thread([service = service_, end = std::move(end)]() mutable {
      service->server.listen_after_bind();
      end.set_value();
    });
    terminal_.write(
        fmt::format("live page  http://{}:{}/{}/\n", name_in_address(where_.host), port, token));
  }

  void row(const nlohmann::ordered_json& row) { service_->news.add_row(row.dump()); }

  const train::LivePage where_;
  const report::Terminal terminal_;
  std::shared_ptr<Service> service_;
  std::thread thread_;
  std::future<void> ended_;
};

}  // namespace

void check_live_page(const train::LivePage& where) {
  require(can_listen(where), "{}. Give another, or leave it out for any that is free.",
          cannot_serve(where));
}

std::unique_ptr<report::Observer> make_live_page(const train::LivePage& where,
                                                 const report::Terminal& terminal) {
  return std::make_unique<LivePage>(where, terminal);
}

}  // namespace asup::cli
