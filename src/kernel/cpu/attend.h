/* Attention on CPUs. */
#ifndef IG_KERNEL_CPU_ATTEND_H
#define IG_KERNEL_CPU_ATTEND_H

#include "kernel/family/attend.h"

/* False if it does not apply: the depth of a head or the columns of its values are not known. */
bool ig_attention_cpu(struct ig_attention *attention);

#endif
