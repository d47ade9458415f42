// A data set of your own, for `asup train --data ./libmine.so`: a class that derives from Dataset,
// in a shared library that says once how to make one.
//
//   std::unique_ptr<asup::data::Dataset> open(asup::data::Split split,
//                                             const asup::data::DatasetOptions& options);
//   ASUP_DATASET(open)
//
// Every process of a job calls it for itself. Samples are the same on all of them: an index means
// one sample. A header alone: the library links with torch, and with nothing of asup.
#pragma once

#include <memory>

#include "asup/data/dataset.h"
#include "asup/data/plugin_stamp.h"

#define ASUP_DATASET(open)                                                           \
  ASUP_PLUGIN_EXPORT const char* asup_dataset_stamp();                               \
  ASUP_PLUGIN_EXPORT const char* asup_dataset_stamp() { return ASUP_PLUGIN_STAMP; }  \
  ASUP_PLUGIN_EXPORT void asup_dataset(asup::data::Split split,                      \
                                       const asup::data::DatasetOptions* options,    \
                                       std::unique_ptr<asup::data::Dataset>* made);  \
  ASUP_PLUGIN_EXPORT void asup_dataset(asup::data::Split split,                      \
                                       const asup::data::DatasetOptions* options,    \
                                       std::unique_ptr<asup::data::Dataset>* made) { \
    *made = open(split, *options);                                                   \
  }                                                                                  \
  static_assert(true, "so that a semicolon may follow")
