// Everything a user's program needs: include this alone.
#pragma once

#include "api/array.h"
#include "api/batches.h"
#include "api/checkpoint.h"
#include "api/compile.h"
#include "api/convolution.h"
#include "api/functions.h"
#include "api/interactive.h"
#include "api/nn.h"
#include "api/optim.h"
#include "api/options.h"
#include "api/progress.h"
#include "api/random.h"
#include "api/recurrent.h"
#include "api/scan.h"
#include "api/tensor.h"
#include "api/world.h"
