// Tar archives, whose headers say where their members lie, and compressed files.
#include "asup/data/byte_source.h"
#include "asup/data/image/open_file.h"
#include "asup/data/image/tar.h"
#include "tests/fuzz/input.h"
#include "tests/support/temporary_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace asup;
  static const testing::TemporaryFolder folder;
  fuzz::Input input(data, size);
  const bool is_tar = input.below(2) == 0;
  const std::string path = folder.write("file", input.text());
  fuzz::may_refuse([&] {
    if (!is_tar) {
      data::ByteSource source(path);
      check(source.take(source.capacity() / 2, "half").size() == source.capacity() / 2, "short");
      source.expect_end();
      return;
    }
    const data::image::OpenFile file(path);
    data::image::read_tar(file, path, [&](const data::image::TarMember& member) {
      check(member.offset + member.size <= file.size(), "{} is not in it", member.name);
    });
  });
  return 0;
}
