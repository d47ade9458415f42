// Files of samples, in all formats: idx and CIFAR, plain and compressed, tar archives, texts,
// images.
#include "asup/data/cifar.h"
#include "asup/data/image/formats.h"
#include "asup/data/mnist.h"
#include "asup/data/text/text_files.h"
#include "tests/fuzz/input.h"
#include "tests/support/temporary_folder.h"

namespace {

using namespace asup::data;

class Rows : public image::RowSink {
 public:
  explicit Rows(int width) : bytes_(static_cast<std::size_t>(width) * 4) {}
  void row(int, const std::uint8_t* pixels) override {
    std::memcpy(bytes_.data(), pixels, bytes_.size());
  }

 private:
  std::vector<std::uint8_t> bytes_;
};

void read_image(std::span<const std::uint8_t> file) {
  image::Decoders decoders;
  image::Decoder& decoder = decoders.of(file);
  const image::Size size = decoder.open(file);
  if (size.width > 1000 || size.height > 1000) return;  // would take a while
  for (const int denominator : {1, 2}) {
    if (denominator > 1 && !decoder.can_reduce()) return;
    const int width = image::reduced(size.width, denominator);
    const int height = image::reduced(size.height, denominator);
    Rows rows(width - width / 3);
    decoder.open(file);
    decoder.decode(denominator, {width / 3, height / 3, width, height}, rows);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace asup;
  static const testing::TemporaryFolder folder;
  fuzz::Input input(data, size);
  const int format = input.below(4);
  fuzz::may_refuse([&] {
    switch (format) {
      case 0:
        folder.write("t10k-labels-idx1-ubyte", input.text_piece());
        folder.write("t10k-images-idx3-ubyte.gz", input.text());
        (void)read_mnist(folder.path(), Split::test, 10);
        break;
      case 1:
        folder.write("test_batch.bin", input.text());
        (void)read_cifar10(folder.path(), Split::test);
        break;
      case 2: {
        const std::string path = folder.write("book.txt", input.text());
        const std::string train = read_text(path, Split::train, 0.3);
        (void)read_text(path, Split::test, 0.3);
        break;
      }
      default: {
        const auto rest = input.rest();
        try {
          read_image({reinterpret_cast<const std::uint8_t*>(rest.data()), rest.size()});
        } catch (const image::BrokenImage&) {
        }
      }
    }
  });
  return 0;
}
