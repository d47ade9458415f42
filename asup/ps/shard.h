// One server's part of the model: the parameters of a range of the flat space, the rules that move
// them, and their state. Knows no links: gradients come from memory, parameters go to memory.
//
// Parts of one job may run on several threads at once; everything else is the owner's.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "asup/kernels/rule.h"
#include "asup/kernels/update.h"
#include "asup/ps/noise_watch.h"
#include "asup/ps/server_setup.h"

namespace asup::ps {

// Memory for elements of a range, wherever it lies.
struct Stretch {
  Range range;
  const float* data = nullptr;
};

// Floats on pages of their own, zeroed by the system when they are first touched.
class Floats {
 public:
  Floats() = default;
  explicit Floats(std::size_t count);
  Floats(Floats&& other) noexcept { swap(other); }
  Floats& operator=(Floats&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Floats();

  float* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  void swap(Floats& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }

  float* data_ = nullptr;
  std::size_t size_ = 0;
};

class Shard {
 public:
  // Updates are counted for each tensor, and for each range between two `cuts`, on its own, since
  // workers may train only some of the parameters.
  Shard(Range range, const ServerSetup& setup, std::vector<std::uint64_t> cuts);

  Range range() const { return range_; }
  float* parameters() const { return parameters_.data(); }
  std::span<const Floats> state() const { return state_; }
  struct Segment {
    Range range;
    std::size_t group = 0;
    std::uint64_t updates = 0;  // steps that have ended
    double gathered = 0;        // share of the next one's samples that it has had
    // Of the update under way: its step, from 1 on, and what had been gathered of it.
    std::uint64_t step = 0;
    double gathered_before = 0;
  };
  const std::vector<Segment>& segments() const { return segments_; }
  std::vector<Segment>& segments() { return segments_; }

  // Takes over what it begins with: the parameters, and every slot of state or none, each as large
  // as the shard.
  void begin_with(Floats parameters, std::vector<Floats> state);
  // The steps that a tensor of the shard has had, by the range of it that lies here: those that
  // ended, and the share of the next one that it has had.
  double steps_of(Range tensor) const;
  void set_steps(Range tensor, double steps);

  // A gradient that counts by its weight. Sorted stretches that do not overlap, in this shard.
  struct Source {
    double weight = 0;
    std::span<const double> lr;  // of each group
    std::span<const Stretch> gradient;
    // With delay compensation: the parameters it was computed from, from range().begin on.
    const float* seen = nullptr;
    double scale = 1;  // of the gradient, which it counts times
  };
  // Gets the parameters of its ranges; `data` is the place of element range().begin.
  struct Target {
    std::span<const Range> ranges;
    float* data = nullptr;
  };
  // An update (with sources) and the handing out of what it makes; targets may be sources.
  struct Job {
    double gain = 1;          // of the learning rates
    double share = 1;         // of a step's samples, which the gain has in it
    double compensation = 0;  // lambda of DC-ASGD
    std::vector<Source> sources;
    std::vector<Target> targets;
    // What begin() makes of the sources, for each group: the learning rate, and what each counts.
    struct Group {
      double lr = 0;
      double share = 1;
      std::vector<double> weights;
    };
    std::vector<Group> groups;
    std::vector<double>
        trust;              // of each tensor of the shard, under LARS and LAMB: measure() fills it
    bool compares = false;  // its sources, for the noise scale
    std::vector<NoiseSquares> compared;  // then, of each part: compare() fills it
    // Of the averaged gradient: what its norm is scaled down to (0: not), the sums of squares of
    // each part, which add_squares() fills, and what it is multiplied with, as all servers know.
    double clip = 0;
    std::vector<double> squares;
    double factor = 1;
  };

  // Before the parts of a job with sources.
  void begin(Job& job);
  // Where gradients are clipped, before measure() and run(). Each of parts() once, on any thread.
  void add_squares(Job& job, std::size_t part) const;
  // Under LARS and LAMB, before run(): norms of whole tensors. Each part once, on any thread.
  std::size_t measures(const Job& job) const;
  void measure(Job& job, std::size_t part) const;
  // Of a job that compares its sources, before run(): their squares. Each part once, on any thread.
  void compare(Job& job, std::size_t part) const;
  // The job itself. Each part once, on any thread.
  std::size_t parts() const;
  void run(const Job& job, std::size_t part);

  // Memory it holds, in bytes.
  std::uint64_t bytes() const;

 private:
  struct Walk;

  kernels::UpdateStep step_of(const Job& job, const Segment& segment) const;
  bool gathers(const Job& job, const Segment& segment) const;
  Range range_of(std::size_t part) const;

  const Range range_;
  const std::vector<kernels::Rule> rules_;  // by group
  std::vector<Range> tensors_;              // those of the shard, where a rule needs them whole
  std::vector<Range> copies_;               // that count in no norm of a gradient
  Floats parameters_;
  std::vector<Floats> state_;  // where rules gather gradients, the last one is for that
  std::vector<Segment> segments_;
};

}  // namespace asup::ps
