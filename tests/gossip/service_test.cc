// What a service cannot go on after, the thread that owns it hears.
#include "asup/gossip/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>
#include <optional>

#include "asup/net/transport/mesh.h"
#include "tests/support/ranks.h"
#include "tests/support/thrown.h"

namespace asup::gossip {
namespace {

using ::testing::HasSubstr;

// Has no memory for what rank 1 sends.
class Narrow : private Service {
 public:
  explicit Narrow(Job& job) : mesh_(job.mesh()) {
    const net::MeshLock lock(mesh_.loop());
    messenger_.emplace(mesh_, job.next_service_id(), std::vector{0, 1},
                       static_cast<net::Messenger::Handler&>(*this));
    messenger_->open();
  }
  ~Narrow() override {
    const net::MeshLock lock(mesh_.loop());
    messenger_.reset();
  }

  void send() {
    const net::MeshLock lock(mesh_.loop());
    messenger_->send_kept(0, {}, std::vector<std::byte>(1000));
    EXPECT_TRUE(mesh_.loop().drive([&] { return gone_; }, after(asup::testing::kPatience)));
  }
  void wait() {
    const net::MeshLock lock(mesh_.loop());
    require_sound();
    EXPECT_TRUE(mesh_.loop().drive([&] { return has_failed(); }, after(asup::testing::kPatience)));
    EXPECT_EQ(mesh_.end_of(1), net::LinkEnd::open);
    require_sound();
  }

 private:
  net::Bytes room_for(int, net::ConstBytes, std::uint64_t) override { throw std::bad_alloc(); }
  void arrived(int, net::ConstBytes, net::Bytes) override {}
  void gone(int, net::LinkEnd) override { gone_ = true; }

  net::Mesh& mesh_;
  bool gone_ = false;
  std::optional<net::Messenger> messenger_;
};

TEST(Service, TellsItsOwnerWhyItCannotGoOn) {
  asup::testing::run_ranks(2, net::LinkKind::inproc, [](Job& job) {
    Narrow service(job);
    if (job.rank() == 1) return service.send();  // until the other leaves
    EXPECT_THAT(asup::testing::message_of<Error>([&] { service.wait(); }),
                HasSubstr("ran out of memory while it took a message of 1000 bytes from rank 1"));
  });
}

}  // namespace
}  // namespace asup::gossip
