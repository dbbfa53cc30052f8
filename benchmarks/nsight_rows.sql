-- Rows of a synthetic export of any size: $kernels kernels and as many launches on 8 GPUs, one
-- process each, and half as many NVTX ranges: steps around layers around operators, 1 : 25 : 124.
-- Tables are those of a real export; rows of a process come in blocks, as from buffers of CUPTI.
CREATE TEMP TABLE launch AS
WITH RECURSIVE
    number(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM number WHERE i + 1 < $kernels),
    placed AS (
        SELECT
            i, (i / 1000) % 8 AS gpu, i / 8000 * 1000 + i % 1000 AS place,
            i * 2654435761 % 4294967296 AS noise
        FROM number
    )
SELECT
    gpu, place, noise,
    1000000000 + place * 20000 + noise % 4000 AS called,
    281474976710656 + (100 + gpu) * 16777216 AS pid,
    place % 20 = 19 AS collective
FROM placed;

INSERT INTO StringIds
WITH RECURSIVE number(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM number WHERE i < 399)
SELECT
    1 + i,
    'void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_' || i
    || 'x128_64x4_tn_align8>(T1::Params)'
FROM number
UNION ALL SELECT 401 + i, 'ncclDevKernel_AllReduce_Sum_bf16_RING_LL_' || i FROM number WHERE i < 3
UNION ALL SELECT 404, 'cudaLaunchKernel_v7000'
UNION ALL SELECT 405, 'cudaLaunchKernelExC_v11060'
UNION ALL SELECT 406 + i, 'layer_' || i FROM number WHERE i < 96
UNION ALL SELECT 502, 'train_step';

INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (
    start, end, deviceId, contextId, streamId, correlationId, globalPid, demangledName, shortName,
    mangledName, launchType, cacheConfig, registersPerThread, gridX, gridY, gridZ, blockX, blockY,
    blockZ, staticSharedMemory, dynamicSharedMemory, localMemoryPerThread, localMemoryTotal,
    gridId, sharedMemoryExecuted, sharedMemoryLimitConfig
)
SELECT
    called + 6000 + noise % 3000,
    called + 6000 + noise % 3000
    + iif(collective, 20000 + noise % 70000, 1500 + noise % 12000),
    gpu, 1, iif(collective, 20, 7), place + 1, pid,
    iif(collective, 401 + place % 3, 1 + noise % 400),
    iif(collective, 401 + place % 3, 1 + noise % 400),
    iif(collective, 401 + place % 3, 1 + noise % 400),
    0, 0, 16 + noise % 239, 1 + noise % 4095, 1, 1, 256, 1, 1, 0, 49152, 0, 122683392, place + 1,
    102400, 0
FROM launch;

INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME (
    start, end, eventClass, globalTid, correlationId, nameId, returnValue
)
SELECT called, called + 2000 + noise % 4000, 0, pid + 77, place + 1, 404 + noise % 2, 0
FROM launch;

-- An operator holds two launches; 50 operators make a layer, 25 layers a step.
INSERT INTO NVTX_EVENTS (start, end, eventType, color, text, globalTid, textId, domainId)
SELECT
    1000000000 + place * 20000 - 3000, 1000000000 + (place + 2500) * 20000 - 4000, 59, NULL, NULL,
    pid + 77, 502, 0
FROM launch WHERE place % 2500 = 0
UNION ALL
SELECT
    1000000000 + place * 20000 - 2000, 1000000000 + (place + 100) * 20000 - 5000, 59, NULL, NULL,
    pid + 77, 406 + place / 100 % 25, 0
FROM launch WHERE place % 100 = 0
UNION ALL
SELECT
    1000000000 + place * 20000 - 1000, 1000000000 + (place + 2) * 20000 - 6000, 59, 4278190335,
    iif(
        place % 20 = 0,
        'aten::mm, seq = ' || place || ', op_id = ' || place || ', sizes = [[' || (1 + noise % 512)
        || ', 4096], [4096, 4096]]',
        NULL
    ),
    pid + 77, iif(place % 20 = 0, NULL, 406 + place / 2 % 96), 0
FROM launch WHERE place % 2 = 0;
DROP TABLE launch;

INSERT INTO TARGET_INFO_SESSION_START_TIME (utcEpochNs) VALUES (1700000000000000000);
INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '3.24.0');
