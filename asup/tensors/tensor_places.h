// Where tensors on the CPU have their memory, but for small ones. For programs that train.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <unordered_map>

namespace asup {

class TensorMemory;

// From now on memory that large tensors free is kept for others of this process, in huge pages. The
// system would clear each page that it hands out, and a step of training asks it for as many as its
// gradients and activations have. The process never has more than it once used. A second call does
// nothing.
void keep_tensor_memory();

// Memory on a disk, for tensors that are long in use and seldom touched: the optimizer's state, or
// activations until their backward. The system keeps of it in memory what there is room for.
// Tensors there may outlive it. Safe from any thread.
class TensorFile {
 public:
  // A file without a name in this folder. Throws BadInput for a folder that cannot be written to,
  // or that lies in memory itself.
  explicit TensorFile(const std::string& folder);

 private:
  friend class TensorsIn;
  friend class OptimizerStateIn;
  std::shared_ptr<TensorMemory> memory_;
};

// Tensors of a mebibyte or more that its thread makes, as long as it is there, lie in a file. One
// within another counts. Throws Error, from what makes a tensor, where the disk has no room for it.
class TensorsIn {
 public:
  explicit TensorsIn(const TensorFile& file);
  ~TensorsIn();
  TensorsIn(const TensorsIn&) = delete;
  TensorsIn& operator=(const TensorsIn&) = delete;

 private:
  const std::shared_ptr<TensorMemory> memory_, before_;
};

// What optimizers keep beside parameters (momentum, moments) lies in a file, where asup makes it
// for this thread as long as this is there: in a parameter's first step of a replica, and where it
// is read from a checkpoint. Other tensors lie in memory. As TensorsIn else.
class OptimizerStateIn {
 public:
  explicit OptimizerStateIn(const TensorFile& file);
  ~OptimizerStateIn();
  OptimizerStateIn(const OptimizerStateIn&) = delete;
  OptimizerStateIn& operator=(const OptimizerStateIn&) = delete;

 private:
  const std::shared_ptr<TensorMemory> memory_, before_;
};

// Counts what tensors take that its thread makes as long as it is there, until that thread frees
// them. One within another counts alone.
class TensorBytes {
 public:
  TensorBytes();
  ~TensorBytes();
  TensorBytes(const TensorBytes&) = delete;
  TensorBytes& operator=(const TensorBytes&) = delete;

  std::size_t in_use() const { return in_use_; }

  // For the allocator.
  void took(void* data, std::size_t bytes);
  void gave_back(void* data);

 private:
  TensorBytes* const before_;
  std::unordered_map<void*, std::size_t> sizes_;
  std::size_t in_use_ = 0;
};

}  // namespace asup
