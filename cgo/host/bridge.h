// Puts the Go functions into the table that the hooks call.

#pragma once

#include "les-host.h"

int32_t les_host_bridge_register(void);
