// The folder that holds checkpoints: how one comes to its name, which ones are there, and what dead saves leave.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "wreath/result.hpp"

namespace wreath::training {

// "step-000100".
std::string step_name(std::int64_t step);

// Steps and paths of what has its name.
Result<std::map<std::int64_t, std::string>> checkpoints_in(const std::string& folder);

// Makes `folder` where it is missing. Error: nothing can be made in it.
Status check_folder(const std::string& folder);
// Makes `folder` where it is missing, removes what dead saves left in it as far as that can be removed, and makes a
// hidden folder for a save of `step`; returns its path.
Result<std::string> begin_folder(const std::string& folder, std::int64_t step);
// Syncs the hidden folder and gives it its name in one step; what had the name is removed, or stays where the file
// system cannot exchange two names (then this is an error). Another job that saves into `folder` removes the hidden
// one: an error that says so.
Status publish_folder(const std::string& folder, const std::string& hidden, std::int64_t step);
// Removes a folder, whose name goes first, so that no scan meets half of it. As far as it can be removed.
void remove_folder(const std::string& folder, const std::string& path);
// Of the checkpoints before `step`, all but the newest `keep`.
void remove_older(const std::string& folder, std::int64_t step, int keep);

}  // namespace wreath::training
