// What a thread needs to turn files into images, and a store of it that threads share.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "asup/data/image/crop.h"
#include "asup/data/image/formats.h"
#include "asup/data/image/resample.h"

namespace asup::data::image {

// Keeps its memory from file to file. Used from one thread.
struct Workspace {
  std::vector<std::uint8_t> bytes;  // of the file
  Decoders decoders;
  Resampler resampler;

  // Opens what is in `bytes`. Throws BrokenImage.
  Size open() {
    decoder_ = &decoders.of(bytes);
    return decoder_->open(bytes);
  }

  // Of the opened picture, at the smallest of the sizes that a JPEG can be decoded to which is not
  // below the output's. Throws BrokenImage.
  void render(Size picture, const Crop& crop, const Placement& placement, const Levels& levels,
              float* out);

 private:
  Decoder* decoder_ = nullptr;
};

// 1, 2, 4 or 8: a picture may be made so many times smaller before the crop is resized.
int reduction_for(const Crop& crop);

// Safe from any thread.
class Workspaces {
 public:
  // One that nobody uses; it comes back when the pointer goes.
  struct GiveBack {
    Workspaces* owner;
    void operator()(Workspace* space) const { owner->put(space); }
  };
  using Lent = std::unique_ptr<Workspace, GiveBack>;
  Lent take();

 private:
  void put(Workspace* space);

  std::mutex mutex_;
  std::vector<std::unique_ptr<Workspace>> free_;  // protected by mutex_
};

}  // namespace asup::data::image
