// The declared choice of how workers stay in step: a way with its options, and what all ways have.
// Values only; safe from any thread.
//
//   asup::Strategy strategy = asup::DiLoCo{.every = 100, .outer_lr = 0.7};
//   asup::Strategy through_servers = asup::ParameterServer{.pace = asup::Ssp{4}};
#pragma once

#include <any>
#include <string>
#include <vector>

#include "asup/base/clock.h"
#include "asup/config/given.h"
#include "asup/net/membership/join_options.h"
#include "asup/sync/way.h"

namespace asup {

class Strategy {
 public:
  Strategy();  // by all-reduce
  template <typename Options>
  requires requires(const Options& options) { way_of(options); }
  Strategy(Options options)  // NOLINT(google-explicit-constructor): options are a strategy
      : way_(&way_of(options)), options_(std::move(options)) {}
  // A way with its usual options.
  explicit Strategy(const Way& way) : way_(&way), options_(way.usual()) {}

  // What `asup run`'s flags said, through the environment: ASUP_STRATEGY names a TOML file with
  // settings as keys; ASUP_SYNC, ASUP_PACE, …, ASUP_BUCKET_MB and so on go before it. Throws
  // BadInput that says which variable or line is wrong.
  static Strategy from(const net::Environment& environment);
  // The way, with what was said of its settings. Throws BadInput for values that are not allowed,
  // and for choices that do not go together.
  static Strategy from(const Way& way, const config::Given& given);

  const Way& way() const { return *way_; }
  std::string name() const { return std::string(way_->name); }
  Capabilities capabilities() const { return way_->capabilities(options_); }
  // Throws BadInput for choices that do not go together.
  void check() const;
  void check_workers(int workers) const;
  void check_model(torch::nn::Module& model, torch::optim::Optimizer& optimizer) const {
    way_->check_model(options_, model, optimizer);
  }
  // The options, where they are of this type; else null.
  template <typename Options>
  const Options* as() const {
    return std::any_cast<Options>(&options_);
  }
  // Whether there is such a setting, with its options as they are.
  bool has(std::string_view setting);
  // Its options with their settings.
  std::vector<config::Section> sections() { return way_->sections(options_); }
  MadeReplica make(const ReplicaContext& context) const { return way_->make(options_, context); }

  std::string algorithm = "auto";  // of collectives
  // After which a worker that does not answer ends the job; zero: the job's own, --call-timeout.
  Seconds timeout{0};

 private:
  const Way* way_;
  std::any options_;
};

// Of all ways, and what a program may say beside them: "sync", "pace", …, "timeout".
std::vector<std::string> names_of_strategy_settings();

// Throws BadInput for a setting of ways that was said and that none of the strategies has, saying
// which way has it.
void require_used(const config::Given& given, std::vector<Strategy> strategies);

}  // namespace asup
