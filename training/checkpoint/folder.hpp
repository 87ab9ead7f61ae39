// This file manages the folder that holds checkpoints: it names new ones, lists them, and removes the remains of dead
// saves.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "wreath/result.hpp"

namespace wreath::training {

// Returns a name like "step-000100".
std::string step_name(std::int64_t step);

// Returns the steps and paths of the checkpoints that have their names.
Result<std::map<std::int64_t, std::string>> checkpoints_in(const std::string& folder);

// Makes `folder` where it is missing. Returns an error where nothing can be made in it.
Status check_folder(const std::string& folder);
// Makes `folder` where it is missing, and removes the remains of dead saves in it as far as possible. Then it makes a
// hidden folder for a save of `step` and returns its path.
Result<std::string> begin_folder(const std::string& folder, std::int64_t step);
// Syncs the hidden folder and renames it in one step. A former folder of that name is removed. Where the file system
// cannot exchange two names the former one stays, and that is an error. Another job that saves into `folder` removes
// the hidden one, and the error then says so.
Status publish_folder(const std::string& folder, const std::string& hidden, std::int64_t step);
// Removes a folder as far as possible. It removes the name first, so that no scan meets half of the folder.
void remove_folder(const std::string& folder, const std::string& path);
// Removes, of the checkpoints before `step`, all but the newest `keep`.
void remove_older(const std::string& folder, std::int64_t step, int keep);

}  // namespace wreath::training
