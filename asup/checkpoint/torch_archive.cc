#include "asup/checkpoint/torch_archive.h"

#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/pickler.h>

namespace asup::checkpoint {
namespace {

// torch::jit::pickle_save() would say the dictionary's type as well, by a function that
// weights_only=True does not call.
constexpr bool kSayTypes = false;

c10::IValue dictionary_of(const std::map<std::string, torch::Tensor>& tensors) {
  c10::Dict<std::string, torch::Tensor> dictionary;
  for (const auto& [name, tensor] : tensors)
    dictionary.insert(name, tensor.detach().cpu().contiguous());
  return dictionary;
}

}  // namespace

std::string torch_archive(const std::map<std::string, torch::Tensor>& tensors) {
  std::string pickle, archive;
  torch::jit::Pickler pickler(
      [&](const char* data, std::size_t size) { pickle.append(data, size); }, nullptr, nullptr,
      nullptr, nullptr, kSayTypes);
  pickler.protocol();
  pickler.pushIValue(dictionary_of(tensors));
  pickler.stop();

  caffe2::serialize::PyTorchStreamWriter writer([&](const void* data, std::size_t size) {
    archive.append(static_cast<const char*>(data), size);
    return size;
  });
  writer.writeRecord("data.pkl", pickle.data(), pickle.size());
  const std::string little = "little";  // the only order that asup runs on
  writer.writeRecord("byteorder", little.data(), little.size());
  std::size_t number = 0;
  for (const torch::Tensor& tensor : pickler.tensorData())
    writer.writeRecord("data/" + std::to_string(number++), tensor.const_data_ptr(),
                       tensor.nbytes());
  writer.writeEndOfFile();
  return archive;
}

}  // namespace asup::checkpoint
