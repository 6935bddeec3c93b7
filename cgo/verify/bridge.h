// Puts the Go callbacks into the table that C calls.

#pragma once

#include "les-verify.h"

void les_bridge_verify(bool on);
