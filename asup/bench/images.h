// `asup bench images`: how many images a second the loader of image files gives, beside decoding
// them and nothing else.
#pragma once

#include <string>

namespace asup::bench {

struct ImagesBench {
  std::string data;    // a folder of classes, or of shards; empty: pictures are made
  std::string keep;    // folder for the pictures that are made; empty: they are deleted again
  int size = 224;      // pixels of a side
  double crop = 0.08;  // least share of a picture's area; 0: the middle, as for tests
  int threads = 0;     // of the row of all threads; 0: as there are cores
  std::string json;    // file for the rows; empty: none
  bool quick = false;
};

// Prints the table. The exit status.
int run_images_bench(const ImagesBench& bench);

// Writes `count` JPEGs of 500 x 375 pixels at quality 90 to DIR/train and DIR/val, in two classes:
// noise of many scales, as photographs have it.
void make_pictures(const std::string& folder, int count);

}  // namespace asup::bench
