/* Injects failures into the calls of any device: before a call of work, which then does nothing; after one that waits. */
#ifndef TESTS_SUPPORT_FAULTS_H
#define TESTS_SUPPORT_FAULTS_H

#include "device/device.h"

enum fault {
    FAULT_ALLOCATE,
    FAULT_ALLOCATE_HOST,
    FAULT_LIST_BEGIN,
    FAULT_LIST_END,
    FAULT_LIST_READY,
    FAULT_LAUNCH, /* also while recorded; like copies */
    FAULT_COPY,
    FAULT_LIST_LAUNCH,
    FAULT_EVENT_RECORD,
    FAULT_EVENT_WAIT,
    FAULT_EVENT_SYNC,
    FAULT_STREAM_WAIT,
    FAULT_COUNT
};

extern const char *const fault_names[FAULT_COUNT];

/* Lets the device's calls fail. All such devices are of one kind at a time. */
void faults_add(struct ig_device *device);
/* Call number `n` (from 1) of this kind, on any such device, fails with INGOT_DEVICE, "injected"; once. */
void faults_arm(enum fault fault, uint64_t n);
/* Returns whether it has failed. */
bool faults_disarm(void);

#endif
