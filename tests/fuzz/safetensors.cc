// Files of tensors: their header says where the elements of each lie.
#include "asup/checkpoint/safetensors.h"

#include "tests/fuzz/input.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace asup;
  const fuzz::MemoryFile memory(data, size);
  fuzz::may_refuse([&] {
    checkpoint::SafetensorsFile file(memory.path());
    for (const std::string& name : file.names()) (void)file.read(name).numel();
  });
  fuzz::may_refuse([&] {
    (void)checkpoint::SafetensorsFile::read_all({reinterpret_cast<const char*>(data), size});
  });
  return 0;
}
