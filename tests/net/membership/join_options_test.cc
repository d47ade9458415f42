#include "asup/net/membership/join_options.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "asup/base/error.h"
#include "tests/support/thrown.h"

namespace asup::net {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Map = std::map<std::string, std::string>;

JoinOptions identity(const Map& variables) {
  return identity_from([&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

// The message of the BadInput that the variables lead to; "" where they are accepted.
std::string complaint(const Map& variables) {
  return asup::testing::message_of<BadInput>([&] { identity(variables); });
}

Map with(Map variables, const Map& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

Map without(Map variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

class KeyFile {
 public:
  explicit KeyFile(const std::string& content, mode_t mode = 0600)
      : path_(std::filesystem::temp_directory_path() /
              ("asup_identity_test." + std::to_string(getpid()))) {
    std::ofstream(path_, std::ios::trunc) << content;
    chmod(path_.c_str(), mode);
  }
  ~KeyFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_; }

 private:
  std::filesystem::path path_;
};

TEST(Identity, NoVariablesAreAJobOfOne) {
  const JoinOptions options = identity({});
  EXPECT_EQ(options.rank, 0);
  EXPECT_EQ(options.size, 1);
  EXPECT_EQ(options.coordinator, "");
  EXPECT_FALSE(options.host_coordinator);
}

TEST(Identity, CommonVariablesSetTheirFields) {
  const JoinOptions options = identity({{"ASUP_INTERFACE", "eth0"},
                                        {"ASUP_LINKS", "tcp"},
                                        {"ASUP_TLS", "on"},
                                        {"ASUP_JOIN_TIMEOUT", "2.5"},
                                        {"ASUP_CALL_TIMEOUT", "7"}});
  EXPECT_EQ(options.interface, "eth0");
  EXPECT_EQ(options.links, LinkKind::tcp);
  EXPECT_EQ(options.tls, TlsMode::on);
  EXPECT_EQ(options.join_timeout, Seconds(2.5));
  EXPECT_EQ(options.call_timeout, Seconds(7));
  EXPECT_THAT(complaint({{"ASUP_TLS", "1.3"}}),
              HasSubstr("ASUP_TLS='1.3': auto, on or off is needed"));
  EXPECT_THAT(complaint({{"ASUP_LINKS", "carrier-pigeon"}}),
              AllOf(HasSubstr("ASUP_LINKS='carrier-pigeon'"), HasSubstr("auto, shm, tcp or mpi")));
  for (const char* wrong : {"soon", "0", "-1", "inf", "3s"})
    EXPECT_THAT(complaint({{"ASUP_JOIN_TIMEOUT", wrong}}), HasSubstr("ASUP_JOIN_TIMEOUT")) << wrong;
}

class AsupRun : public ::testing::Test {
 protected:
  const Key key_ = random_key();
  Fd fd_ = make_key_fd(key_);
  Map good_{{"ASUP_RANK", "2"},
            {"ASUP_SIZE", "4"},
            {"ASUP_COORDINATOR", "10.0.0.1:4000"},
            {"ASUP_KEY_FD", std::to_string(fd_.get())}};
};

TEST_F(AsupRun, IsRead) {
  const JoinOptions options = identity(good_);
  EXPECT_EQ(options.rank, 2);
  EXPECT_EQ(options.size, 4);
  EXPECT_EQ(options.coordinator, "10.0.0.1:4000");
  EXPECT_EQ(options.key, key_);
  EXPECT_EQ(options.launcher, "asup run");
  EXPECT_FALSE(options.host_coordinator);
  EXPECT_EQ(options.key_socket, "");
  EXPECT_EQ(fcntl(fd_.get(), F_GETFD), -1) << "the key's descriptor is closed after reading";
  fd_.release();
}

TEST_F(AsupRun, TheKeyIsReadOnceAndNothingElseIsTakenForIt) {
  identity(good_);
  const int number = fd_.release();
  EXPECT_THAT(complaint(good_), HasSubstr("the job's key is not there"));
  // The number is reused by a file of the program's own, which must survive.
  Fd other(open("/dev/null", O_RDONLY));
  ASSERT_EQ(other.get(), number);
  EXPECT_THAT(complaint(good_), HasSubstr("the job's key is not there"));
  EXPECT_NE(fcntl(number, F_GETFD), -1);
}

TEST_F(AsupRun, WrongValuesAreNamed) {
  EXPECT_THAT(complaint(with(good_, {{"ASUP_RANK", "4"}})),
              AllOf(HasSubstr("ASUP_RANK=4"), HasSubstr("ASUP_SIZE=4"), HasSubstr("from 0 to 3")));
  EXPECT_THAT(complaint(with(good_, {{"ASUP_RANK", "two"}})), HasSubstr("ASUP_RANK='two'"));
  EXPECT_THAT(complaint(with(good_, {{"ASUP_RANK", "-1"}})), HasSubstr("ASUP_RANK='-1'"));
  EXPECT_THAT(complaint(with(good_, {{"ASUP_SIZE", "0"}})), HasSubstr("ASUP_SIZE='0'"));
  EXPECT_THAT(complaint(with(good_, {{"ASUP_SIZE", "99999999999999999999"}})),
              HasSubstr("ASUP_SIZE"));
  EXPECT_EQ(complaint(without(good_, "ASUP_COORDINATOR")), "ASUP_COORDINATOR is not set");
  EXPECT_THAT(complaint(with(good_, {{"ASUP_COORDINATOR", "here"}})), HasSubstr("host:port"));
  EXPECT_THAT(complaint(with(good_, {{"ASUP_COORDINATOR", "here:99999"}})),
              HasSubstr("'99999' is no port"));
  EXPECT_EQ(complaint(without(good_, "ASUP_KEY_FD")), "ASUP_KEY_FD is not set");
  EXPECT_THAT(complaint(without(good_, "ASUP_RANK")), HasSubstr("ASUP_RANK is not"));
}

TEST_F(AsupRun, AWorkerKnowsOfTheServers) {
  const JoinOptions options = identity(with(good_, {{"ASUP_SERVERS", "2"}}));
  fd_.release();
  EXPECT_EQ(options.rank, 2);
  EXPECT_EQ(options.size, 6) << "of both roles";
  EXPECT_EQ(options.roles(), (Roles{4, 2}));
  EXPECT_FALSE(options.is_server());
}

TEST_F(AsupRun, AServerIsFoundFromItsRole) {
  const Map server =
      with(without(good_, "ASUP_RANK"),
           {{"ASUP_SERVERS", "2"}, {"ASUP_ROLE", "server"}, {"ASUP_SERVER_RANK", "1"}});
  const JoinOptions options = identity(server);
  fd_.release();
  EXPECT_EQ(options.rank, 5);
  EXPECT_EQ(options.size, 6);
  EXPECT_TRUE(options.is_server());
}

TEST_F(AsupRun, WrongRolesAreNamed) {
  const Map server =
      with(without(good_, "ASUP_RANK"),
           {{"ASUP_SERVERS", "2"}, {"ASUP_ROLE", "server"}, {"ASUP_SERVER_RANK", "1"}});
  EXPECT_THAT(complaint(with(server, {{"ASUP_ROLE", "waiter"}})),
              HasSubstr("ASUP_ROLE='waiter': worker or server"));
  EXPECT_THAT(complaint(with(server, {{"ASUP_SERVER_RANK", "2"}})),
              AllOf(HasSubstr("ASUP_SERVER_RANK=2"), HasSubstr("ASUP_SERVERS=2"),
                    HasSubstr("from 0 to 1")));
  EXPECT_THAT(complaint(with(server, {{"ASUP_SERVERS", "0"}})),
              HasSubstr("there are no servers in this job"));
  EXPECT_EQ(complaint(without(server, "ASUP_SERVERS")), "ASUP_SERVERS is not set");
  EXPECT_EQ(complaint(without(server, "ASUP_SERVER_RANK")), "ASUP_SERVER_RANK is not set");
  for (const char* wrong : {"-1", "two", "1.5", "99999999"})
    EXPECT_THAT(complaint(with(good_, {{"ASUP_SERVERS", wrong}})),
                HasSubstr(std::string("ASUP_SERVERS='") + wrong + "': a whole number from 0"))
        << wrong;
}

TEST(Identity, ServersNeedALauncher) {
  EXPECT_THAT(complaint({{"ASUP_SERVERS", "1"}}),
              AllOf(HasSubstr("no launcher"), HasSubstr("asup run --servers")));
  EXPECT_EQ(complaint({{"ASUP_SERVERS", "0"}}), "");
}

const Map kTorchrun{{"RANK", "1"},
                    {"WORLD_SIZE", "2"},
                    {"LOCAL_WORLD_SIZE", "2"},
                    {"MASTER_ADDR", "alpha"},
                    {"MASTER_PORT", "29500"}};

TEST(OtherLaunchers, TheLastProcessesAreTheServers) {
  const auto rank_of_four = [](const char* rank, const char* servers) {
    return with(kTorchrun, {{"RANK", rank},
                            {"WORLD_SIZE", "4"},
                            {"LOCAL_WORLD_SIZE", "4"},
                            {"ASUP_SERVERS", servers}});
  };
  EXPECT_FALSE(identity(rank_of_four("2", "1")).is_server());
  const JoinOptions server = identity(rank_of_four("3", "1"));
  EXPECT_TRUE(server.is_server());
  EXPECT_EQ(server.rank, 3);
  EXPECT_EQ(server.roles(), (Roles{3, 1}));
  for (const char* many : {"4", "5"})
    EXPECT_THAT(complaint(rank_of_four("0", many)),
                AllOf(HasSubstr(std::string("ASUP_SERVERS=") + many), HasSubstr("WORLD_SIZE=4"),
                      HasSubstr("at least one must be left to train")));
  EXPECT_THAT(complaint(rank_of_four("0", "-1")), HasSubstr("ASUP_SERVERS='-1'"));
  EXPECT_THAT(complaint(rank_of_four("0", "many")), HasSubstr("ASUP_SERVERS='many'"));
  EXPECT_THAT(
      complaint(
          {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}, {"ASUP_SERVERS", "1"}}),
      HasSubstr("OMPI_COMM_WORLD_SIZE=1"));
}

TEST(Torchrun, OnOneHostNeedsNothingMore) {
  const JoinOptions one = identity(kTorchrun);
  EXPECT_EQ(one.rank, 1);
  EXPECT_EQ(one.size, 2);
  EXPECT_TRUE(one.one_host);
  EXPECT_EQ(one.coordinator, "127.0.0.1:0");  // rank 0 tells which, with the key
  EXPECT_FALSE(one.host_coordinator);
  EXPECT_NE(one.key_socket, "");

  const JoinOptions zero = identity(with(kTorchrun, {{"RANK", "0"}}));
  EXPECT_TRUE(zero.host_coordinator);
  EXPECT_EQ(zero.key_socket, one.key_socket);
  EXPECT_NE(zero.key, Key{});
}

TEST(Torchrun, JobsAndRestartsMeetApart) {
  const std::string key_socket = identity(kTorchrun).key_socket;
  EXPECT_NE(identity(with(kTorchrun, {{"MASTER_PORT", "29600"}})).key_socket, key_socket);
  EXPECT_NE(identity(with(kTorchrun, {{"TORCHELASTIC_RUN_ID", "x"}})).key_socket, key_socket);
  EXPECT_NE(identity(with(kTorchrun, {{"TORCHELASTIC_RESTART_COUNT", "1"}})).key_socket,
            key_socket);
}

TEST(Torchrun, LoopbackMeansOneHostEvenWithoutALocalSize) {
  const Map by_hand = without(with(kTorchrun, {{"MASTER_ADDR", "localhost"}}), "LOCAL_WORLD_SIZE");
  EXPECT_TRUE(identity(by_hand).one_host);
}

TEST(Torchrun, OnSeveralHostsNeedsAKeyFile) {
  const Map hosts = with(kTorchrun, {{"LOCAL_WORLD_SIZE", "1"}});
  EXPECT_THAT(complaint(hosts), AllOf(HasSubstr("ASUP_KEY_FILE"), HasSubstr("umask 077")));
  const KeyFile file("sixteen bytes ok");
  const JoinOptions options = identity(with(hosts, {{"ASUP_KEY_FILE", file.path()}}));
  EXPECT_FALSE(options.one_host);
  EXPECT_EQ(options.coordinator, "alpha:29501");
  EXPECT_EQ(options.key_socket, "");
  EXPECT_EQ(options.key, read_key_file(file.path()));
}

TEST(Torchrun, TheCoordinatorCanBeMoved) {
  const JoinOptions options = identity(with(kTorchrun, {{"ASUP_COORDINATOR", "127.0.0.1:7"}}));
  EXPECT_EQ(options.coordinator, "127.0.0.1:7");
}

TEST(Torchrun, WrongValuesAreNamed) {
  EXPECT_THAT(complaint({{"RANK", "0"}}), HasSubstr("WORLD_SIZE is not"));
  EXPECT_THAT(complaint({{"WORLD_SIZE", "2"}}), HasSubstr("RANK is not"));
  EXPECT_THAT(complaint(without(kTorchrun, "MASTER_ADDR")), HasSubstr("MASTER_ADDR"));
  EXPECT_THAT(complaint(with(kTorchrun, {{"RANK", "2"}})), HasSubstr("RANK=2"));
  EXPECT_THAT(complaint(with(kTorchrun, {{"MASTER_PORT", "65535"}})),
              HasSubstr("MASTER_PORT='65535'"));
  EXPECT_EQ(complaint({{"RANK", "0"}, {"WORLD_SIZE", "1"}}), "");
}

TEST(KeyFile, MustBePrivateAndLongEnough) {
  const auto refuse = [](const std::string& path) {
    return complaint(with(kTorchrun, {{"ASUP_KEY_FILE", path}}));
  };
  EXPECT_THAT(refuse("/no/such/file"), HasSubstr("No such file"));
  EXPECT_THAT(refuse("/tmp"), HasSubstr("not a regular file"));
  {
    const KeyFile file("long enough to be a key", 0640);
    EXPECT_THAT(refuse(file.path()), AllOf(HasSubstr("mode 640"), HasSubstr("chmod 600")));
  }
  {
    const KeyFile file("fifteen bytes!!");
    EXPECT_THAT(refuse(file.path()), AllOf(HasSubstr("15 bytes"), HasSubstr("/dev/urandom")));
  }
  const KeyFile file(std::string(100'000, 'x'));
  EXPECT_THAT(refuse(file.path()), HasSubstr("too large"));
}

TEST(KeyFile, DifferentSecretsAreDifferentKeys) {
  Key first, second;
  {
    const KeyFile file("the first secret, long enough");
    first = read_key_file(file.path());
  }
  const KeyFile file("the other secret, long enough");
  second = read_key_file(file.path());
  EXPECT_NE(first, second);
}

TEST(Key, HexGoesBothWays) {
  const Key key = random_key();
  EXPECT_EQ(key_from_hex(to_hex(key)), key);
  EXPECT_THROW(key_from_hex("12"), BadInput);
  EXPECT_THROW(key_from_hex(std::string(64, 'g')), BadInput);
}

const Map kOpenMpi{{"OMPI_COMM_WORLD_RANK", "0"},
                   {"OMPI_COMM_WORLD_SIZE", "2"},
                   {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                   {"PMIX_NAMESPACE", "prterun-alpha-77@1"}};

TEST(OpenMpi, OnOneHostMeetsByItself) {
  const JoinOptions options = identity(kOpenMpi);
  EXPECT_EQ(options.size, 2);
  EXPECT_TRUE(options.host_coordinator);
  EXPECT_EQ(options.coordinator, "127.0.0.1:0");
  EXPECT_NE(options.key_socket, "");
  EXPECT_NE(identity(with(kOpenMpi, {{"PMIX_NAMESPACE", "prterun-alpha-78@1"}})).key_socket,
            options.key_socket);
}

TEST(OpenMpi, OnSeveralHostsNeedsAPlaceAndAKey) {
  const Map hosts = with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}});
  EXPECT_THAT(complaint(hosts),
              AllOf(HasSubstr("ASUP_COORDINATOR=host:port"), HasSubstr("mpirun -x")));
  const Map placed = with(hosts, {{"ASUP_COORDINATOR", "alpha:5000"}});
  EXPECT_THAT(complaint(placed), HasSubstr("ASUP_KEY_FILE"));
  const KeyFile file("sixteen bytes ok");
  EXPECT_EQ(identity(with(placed, {{"ASUP_KEY_FILE", file.path()}})).coordinator, "alpha:5000");
}

TEST(OpenMpi, LinksOverMpiNeedNeitherPlaceNorKey) {
  const JoinOptions options =
      identity(with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}, {"ASUP_LINKS", "mpi"}}));
  EXPECT_EQ(options.links, LinkKind::mpi);
  EXPECT_FALSE(options.host_coordinator);
  EXPECT_EQ(options.coordinator, "");
  EXPECT_EQ(options.key_socket, "");
}

TEST(OpenMpi, LinksOverMpiNeedMpirun) {
  EXPECT_THAT(complaint({{"ASUP_LINKS", "mpi"}}),
              AllOf(HasSubstr("no launcher's variables are set"), HasSubstr("mpirun -n N")));
  const Map torchrun{{"RANK", "0"},
                     {"WORLD_SIZE", "2"},
                     {"MASTER_ADDR", "127.0.0.1"},
                     {"MASTER_PORT", "2000"},
                     {"ASUP_LINKS", "mpi"}};
  EXPECT_THAT(complaint(torchrun), AllOf(HasSubstr("torchrun did"), HasSubstr("mpirun -n N")));
}

const Map kSlurm{{"SLURM_PROCID", "3"},    {"SLURM_NTASKS", "4"},
                 {"SLURM_JOB_ID", "1234"}, {"SLURM_NODELIST", "node[07-09]"},
                 {"SLURM_NNODES", "3"},    {"SLURM_STEP_ID", "0"}};

TEST(Slurm, FindsTheFirstHostAndAPort) {
  const KeyFile file("sixteen bytes ok");
  const JoinOptions options = identity(with(kSlurm, {{"ASUP_KEY_FILE", file.path()}}));
  EXPECT_EQ(options.rank, 3);
  EXPECT_EQ(options.size, 4);
  EXPECT_EQ(options.coordinator, "node07:24042");  // 20000 + 13 * 1234 % 12000
  EXPECT_FALSE(options.host_coordinator);
  EXPECT_THAT(complaint(kSlurm), HasSubstr("ASUP_KEY_FILE"));
}

TEST(Slurm, TheStepCountsMoreThanTheAllocation) {
  const JoinOptions options = identity(with(kSlurm, {{"SLURM_STEP_NUM_TASKS", "5"},
                                                     {"SLURM_STEP_NUM_NODES", "1"},
                                                     {"SLURM_STEP_NODELIST", "node08"}}));
  EXPECT_EQ(options.size, 5);
  EXPECT_TRUE(options.one_host);
  EXPECT_EQ(options.coordinator, "127.0.0.1:0");
  EXPECT_NE(options.key_socket, "");
}

TEST(Slurm, WrongValuesAreNamed) {
  const KeyFile file("sixteen bytes ok");
  const Map keyed = with(kSlurm, {{"ASUP_KEY_FILE", file.path()}});
  EXPECT_EQ(complaint(without(keyed, "SLURM_NTASKS")), "SLURM_STEP_NUM_TASKS is not set");
  EXPECT_THAT(complaint(with(keyed, {{"SLURM_JOB_ID", "x"}})), HasSubstr("SLURM_JOB_ID='x'"));
  EXPECT_THAT(complaint(with(keyed, {{"SLURM_NODELIST", "node["}})), HasSubstr("'node['"));
}

TEST(Slurm, HostLists) {
  EXPECT_EQ(first_slurm_host("node1"), "node1");
  EXPECT_EQ(first_slurm_host("node1,node2"), "node1");
  EXPECT_EQ(first_slurm_host("node[1-4,7]"), "node1");
  EXPECT_EQ(first_slurm_host("node[003-128]"), "node003");
  EXPECT_EQ(first_slurm_host("gpu[7,9-11],node[1-2]"), "gpu7");
  EXPECT_EQ(first_slurm_host("rack[2-3]-ib,other"), "rack2-ib");
  for (const char* wrong : {"", "[", "node[]", "node[1", ","})
    EXPECT_THROW(first_slurm_host(wrong), BadInput) << wrong;
}

TEST(Identity, OurOwnLauncherWinsOverTheOneItRunsUnder) {
  Fd fd = make_key_fd(random_key());
  Map all = with(with(kSlurm, kTorchrun), {{"ASUP_RANK", "0"},
                                           {"ASUP_SIZE", "1"},
                                           {"ASUP_COORDINATOR", "127.0.0.1:1"},
                                           {"ASUP_KEY_FD", std::to_string(fd.release())}});
  EXPECT_EQ(identity(all).launcher, "asup run");
  EXPECT_EQ(identity(with(kSlurm, kTorchrun)).launcher, "torchrun");
  EXPECT_EQ(identity(with(kSlurm, kOpenMpi)).launcher, "Open MPI");
}

}  // namespace
}  // namespace asup::net
