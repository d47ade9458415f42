// A checkpoint's folder: its index, by which parts are found in shards. An index is sealed by a
// hash, which the target makes right, as whoever changes one on purpose would.
#include "asup/base/json.h"
#include "asup/checkpoint/index.h"
#include "asup/checkpoint/reader.h"
#include "asup/checkpoint/sha256.h"
#include "tests/fuzz/input.h"
#include "tests/support/temporary_folder.h"

namespace {

// As to_text() seals it.
std::string sealed(const std::string& content) {
  using Json = nlohmann::ordered_json;
  const Json json = asup::try_json<Json>(content);
  if (json.is_discarded()) return content;
  asup::checkpoint::Sha256 hash;
  hash.add(json.dump(-1, ' ', false, Json::error_handler_t::replace));
  return Json{{"asup_checkpoint", 2}, {"sha256", hash.hex()}, {"checkpoint", json}}.dump(
             1, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace asup;
  static const testing::TemporaryFolder folder;
  fuzz::Input input(data, size);
  const bool is_sealed = input.below(2) != 0;
  const std::string shard = input.text_piece();
  const std::string content = input.text();
  folder.write("index.json", is_sealed ? sealed(content) : content);
  folder.write("shard-1-of-1.safetensors", shard);
  fuzz::may_refuse([&] {
    checkpoint::Folder checkpoint(folder.path());
    const auto index = checkpoint.index();
    for (const auto& [name, tensor] : index.tensors)
      fuzz::may_refuse([&] { (void)checkpoint.read(name).numel(); });
    checkpoint.verify();
  });
  return 0;
}
