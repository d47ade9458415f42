// A way of training in parallel, as a row of a table (distribute/ways.cc): its name, its options
// with their settings, what it is capable of, and the function that makes its replica.
//
// The file of a way owns all of that; nothing elsewhere compares names. Whether a way goes with
// something else is decided by its capabilities. Values only; safe from any thread.
#pragma once

#include <any>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "asup/base/clock.h"
#include "asup/config/setting.h"
#include "asup/sync/model/model_parts.h"

namespace torch {
namespace nn {
class Module;
}
namespace optim {
class Optimizer;
}
}  // namespace torch

namespace asup {

class Communicator;
class Job;
class Replica;
class ServerReplica;
namespace ps::pace {
struct Workload;
}
namespace sync {
class LocalUpdateReplica;
}

// What workers give each other.
enum class Exchange {
  gradients,  // of every step, before the optimizer steps
  models,     // each worker's optimizer steps on its own gradients
  pushes      // gradients, or models, go to servers
};

// What a way says of itself, with its options as they are.
struct Capabilities {
  Exchange exchanges = Exchange::gradients;
  bool lockstep = true;          // all take the same steps; else each goes at its own pace
  bool needs_servers = false;    // which keep the parameters
  bool leases_samples = false;   // and deal samples out
  bool survives_loss = false;    // the others go on when a worker is lost, from memory
  bool retakes_steps = false;    // or take the step again in which it was, where one asks them to
  bool exchanges_again = false;  // and in programs exchange what was computed once more
  bool keeps_own_parameters = false;  // workers' models differ even where all meet
  bool names_workers = false;         // the options speak of each worker by its number
  bool computes_together = false;     // each layer: no worker computes with what it has alone
  bool skips_non_finite = false;      // gradients with infinities or NaN are left out and counted
  bool takes_parts = false;           // the model may be a part of one (ReplicaContext::parts)
  int least_workers = 1;
  std::string_view pace{};       // its name, where there are servers
  std::int64_t lease_steps = 1;  // steps between two exchanges through servers
  int backups = 0;               // workers beyond those who share a batch

  // Workers that go at their own pace meet after so long, and wait so long for late ones.
  Seconds round{0}, merge_deadline{0};  // zero: no rounds; as long as it takes
};

// How long the whole run is, where that is known, and how much of it was done before.
struct Progress {
  std::int64_t steps = 0, done = 0;
};

// What a replica is made of. All of it outlives the replica.
struct ReplicaContext {
  Job& job;
  // For the replica alone; with servers, the workers' common one. Of parts, that of the workers
  // that have the same one.
  Communicator& communicator;
  torch::nn::Module& model;
  torch::optim::Optimizer& optimizer;
  Seconds timeout{300};
  std::string observed{};  // what Replica::observed() said before
  Progress progress{};
  // With servers: what they deal out; null: workers find their samples themselves.
  const ps::pace::Workload* work = nullptr;
  std::uint64_t seed = 0;             // of what a way draws at random; each worker draws its own
  std::optional<double> clip_norm{};  // where the replica clips gradients before the exchange
  sync::ModelParts parts{};           // what the model is a part of
  // Where steps cannot be computed again and the way exchanges_again: brings those who are left
  // together after a loss, of whom each calls Replica::recover_step(), and says whether it could.
  std::function<bool()> regroup{};
};

// A replica, and what more its way lets one do with it; null where it does not.
struct MadeReplica {
  MadeReplica();
  MadeReplica(MadeReplica&&) noexcept;
  MadeReplica& operator=(MadeReplica&&) noexcept;
  ~MadeReplica();

  std::unique_ptr<Replica> replica;
  ServerReplica* server = nullptr;            // server/server_replica.h
  sync::LocalUpdateReplica* local = nullptr;  // averaging/local_update_replica.h
  std::string note;  // what was measured and chosen for it, where a person should know
};

// Settings that belong to one value of another setting, as `staleness` to the pace ssp.
struct NestedSettings {
  std::string_view choice;  // the setting: "pace"
  std::string_view value;   // "ssp"
  std::span<const config::Setting> settings;
};

// The row of options of one type.
template <typename Options>
struct WayOf {
  std::string_view name;
  std::string_view group;    // heading of its settings in the help
  std::string_view summary;  // a line, for the help
  std::string_view example;  // flags of asup train
  std::vector<config::Setting> settings{};
  std::vector<NestedSettings> nested{};
  // Where options hold other options, of whose settings these are: the chosen one's.
  std::vector<config::Section> (*sections)(Options& options) = nullptr;
  Capabilities (*capabilities)(const Options& options) = nullptr;
  // Throws BadInput for options that do not go together.
  void (*check)(const Options& options) = nullptr;
  // And with so many workers.
  void (*check_workers)(const Options& options, int workers) = nullptr;
  // And for this model and optimizer.
  void (*check_model)(const Options& options, torch::nn::Module& model,
                      torch::optim::Optimizer& optimizer) = nullptr;
  MadeReplica (*make)(const Options& options, const ReplicaContext& context) = nullptr;
};

// The same without the type.
class Way {
 public:
  template <typename Options>
  Way(WayOf<Options> row);  // NOLINT(google-explicit-constructor): a row is written as WayOf
  Way(const Way&) = delete;
  Way& operator=(const Way&) = delete;

  std::string_view name, group, summary, example;
  std::vector<config::Setting> settings;
  std::vector<NestedSettings> nested;

  std::function<std::any()> usual;  // options as nobody said anything
  std::function<std::vector<config::Section>(std::any& options)> sections;
  std::function<Capabilities(const std::any& options)> capabilities;
  std::function<void(const std::any& options)> check;
  std::function<void(const std::any& options, int workers)> check_workers;
  std::function<void(const std::any& options, torch::nn::Module& model,
                     torch::optim::Optimizer& optimizer)>
      check_model;
  std::function<MadeReplica(const std::any& options, const ReplicaContext& context)> make;
};

template <typename Options>
Way::Way(WayOf<Options> row)
    : name(row.name),
      group(row.group),
      summary(row.summary),
      example(row.example),
      settings(std::move(row.settings)),
      nested(std::move(row.nested)),
      usual([] { return std::any(Options{}); }),
      sections([this, inner = row.sections](std::any& any) {
        auto& options = std::any_cast<Options&>(any);
        std::vector<config::Section> all{{settings, &options}};
        if (inner)
          for (const config::Section& section : inner(options)) all.push_back(section);
        return all;
      }),
      capabilities([of = row.capabilities](const std::any& options) {
        return of(std::any_cast<const Options&>(options));
      }),
      check([look = row.check](const std::any& options) {
        if (look) look(std::any_cast<const Options&>(options));
      }),
      check_workers([look = row.check_workers](const std::any& options, int workers) {
        if (look) look(std::any_cast<const Options&>(options), workers);
      }),
      check_model([look = row.check_model](const std::any& options, torch::nn::Module& model,
                                           torch::optim::Optimizer& optimizer) {
        if (look) look(std::any_cast<const Options&>(options), model, optimizer);
      }),
      make([of = row.make](const std::any& options, const ReplicaContext& context) {
        return of(std::any_cast<const Options&>(options), context);
      }) {}

}  // namespace asup
