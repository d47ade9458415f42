// What a server knows of one worker: where its parameters go, and its push that is under way.
//
// In shared memory the gradient stays where the worker has it and the parameters are written where
// the worker uses them. Over other links the gradient is staged here; when the push has been
// applied, the same memory holds the parameters that leave for the worker. What travels in a code
// (coded_parts.h) is staged over all links, and there is a shadow of what the worker has
// (coded_difference.h). Now and then a worker goes on before its push is applied, to do the work of
// one that was lost: then the push moves to memory of its own. Runs under the mesh's lock.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "asup/net/transport/mesh.h"
#include "asup/ps/coded_difference.h"
#include "asup/ps/message.h"
#include "asup/ps/shard.h"

namespace asup::ps {

class WorkerSession {
 public:
  WorkerSession(net::Mesh& mesh, int worker) : mesh_(mesh), worker_(worker) {}

  // The worker has come. A complaint where what it says cannot be: then it has not.
  // `parameters`: where the worker has those from the element `first` of the flat space on.
  std::string open(Range shard, std::vector<Range> ranges, const RemoteAddress& parameters,
                   const CodedParts& coded = {}, std::uint64_t first = 0);
  bool is_open() const { return open_; }
  // Nothing more comes from the worker. Its push, where it is complete, stays until it is applied
  // or dropped.
  void close();

  const std::vector<Range>& ranges() const { return ranges_; }
  const std::vector<Range>& plain_ranges() const { return plain_; }  // not in a code

  // Where a piece belongs that comes as payload; none where it is not wanted, and then add() says
  // why, or where it is in a code.
  net::Bytes room_for(const Piece& piece, std::uint64_t bytes);
  // A piece has come. A complaint where it is not one of this worker's push.
  std::string add(const Piece& piece, net::ConstBytes payload);
  std::string commit(const Commit& commit, std::vector<double> lr);

  // Complete pushes that are not yet applied or dropped.
  bool has_push(std::uint64_t number) const { return find(number) != nullptr; }
  // needs: has_push()
  const Figures& figures(std::uint64_t number) const { return find(number)->figures; }
  std::span<const double> lr(std::uint64_t number) const { return find(number)->lr; }
  std::span<const Stretch> gradient(std::uint64_t number) const { return find(number)->gradient; }
  void forget_push(std::uint64_t number);
  // The worker goes on and will overwrite its gradients: pushes that are still needed move, but for
  // these. With delay compensation (`with_seen`) so does what they were computed from.
  void set_pushes_aside(std::span<const std::uint64_t> but_for, bool with_seen);

  // Where the parameters of the shard's first element go; the worker's own memory or the stage.
  float* target();
  bool writes_in_place() const { return window_ != nullptr; }
  // The parameters that it computed the gradient of this push from. needs: has_push()
  const float* seen(std::uint64_t number);
  // With delay compensation, over links: the stage holds the gradient, so these are kept too.
  float* backup();

  // What the worker has, or will have when it has what is on its way; null before it has anything.
  const std::shared_ptr<Shadow>& shadow() const { return shadow_; }
  void set_shadow(std::shared_ptr<Shadow> shadow) { shadow_ = std::move(shadow); }
  // The worker tells it; as room_for() and add() above. It is the shadow when all of it has come.
  net::Bytes room_for(const Known& known, std::uint64_t bytes);
  std::string add(const Known& known, net::ConstBytes payload);

 private:
  struct ReceivedPush {
    std::uint64_t number = 0;
    std::vector<Stretch> gradient;
    std::uint64_t got = 0;  // elements of it
    bool complete = false;
    Figures figures;
    std::vector<double> lr;                                // of each group
    std::vector<std::shared_ptr<const net::Region>> held;  // memory that it lies in
    Floats own, seen;                                      // where it was set aside
  };

  std::string complaint_about(const Piece& piece) const;
  std::string complaint_about(const Known& known, std::uint64_t bytes) const;
  bool under_way() const { return !pushes_.empty() && !pushes_.back().complete; }
  const ReceivedPush* find(std::uint64_t number) const;
  const float* sees();  // since it was released last
  Floats& stage();

  net::Mesh& mesh_;
  const int worker_;
  bool open_ = false;
  Range shard_;
  std::vector<Range> ranges_, plain_;
  CodedParts coded_;
  std::uint64_t elements_ = 0;
  float* window_ = nullptr;                  // where the shard's first element would be
  std::shared_ptr<const net::Region> held_;  // the window's memory
  Floats stage_, backup_;
  std::shared_ptr<Shadow> shadow_, told_;  // told_: is coming, up to told_end_
  std::uint64_t told_end_ = 0;
  std::uint64_t last_push_ = 0;       // begun
  std::vector<ReceivedPush> pushes_;  // the last may be under way
};

}  // namespace asup::ps
