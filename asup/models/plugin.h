// A model of your own, for `asup train --model ./libmine.so`: a class that derives from Model, in a
// shared library that says once how to make one.
//
//   std::shared_ptr<asup::models::Model> make(const asup::models::ModelOptions& options);
//   ASUP_MODEL(make)
//
// Every process of a job calls it for itself, with torch's generator seeded alike. A header alone:
// the library links with torch, and with nothing of asup.
#pragma once

#include <memory>

#include "asup/data/plugin_stamp.h"
#include "asup/models/model.h"

#define ASUP_MODEL(make)                                                           \
  ASUP_PLUGIN_EXPORT const char* asup_model_stamp();                               \
  ASUP_PLUGIN_EXPORT const char* asup_model_stamp() { return ASUP_PLUGIN_STAMP; }  \
  ASUP_PLUGIN_EXPORT void asup_model(const asup::models::ModelOptions* options,    \
                                     std::shared_ptr<asup::models::Model>* made);  \
  ASUP_PLUGIN_EXPORT void asup_model(const asup::models::ModelOptions* options,    \
                                     std::shared_ptr<asup::models::Model>* made) { \
    *made = make(*options);                                                        \
  }                                                                                \
  static_assert(true, "so that a semicolon may follow")
