"""The tile of a matmul, by the spelling of each library."""

import pytest

from tracelens.classify.tilings import Tiling, tiling_of


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "nvjet_tst_320x128_64x3_1x2_h_bz_coopB_TNT",
            Tiling(320, 128, 64, "adaptive", "blocks"),
        ),
        (
            "nvjet_sm90_hss_64x8_64x16_1x1_h_bz_splitK_NNT",
            Tiling(64, 8, 64, "split_k", "blocks"),
        ),
        (
            "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize256x128x64_warpgroupsize2x1x1"
            "_execute_segment_k_off_kernel__5x_cublas",
            Tiling(256, 128, 64, "persistent", "blocks"),
        ),
        ("volta_sgemm_32x128_tn", Tiling(32, 128, None, "tiles", "blocks")),
        ("ampere_sgemm_32x32_sliced1x4_nn", Tiling(32, 32, None, "tiles", "blocks")),
        (
            "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn",
            Tiling(128, 256, 64, "tiles", "blocks"),
        ),
        (
            "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_32x6_tn_"
            "align8>(cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_32x6_tn_align8::Params)",
            Tiling(64, 64, 32, "tiles", "blocks"),
        ),
        (
            "Cijk_Alik_Bljk_B_BS_BH_Bias_HA_S_SAV_UserArgs_MT256x128x64_MI16x16x1_SN_LDSB1_GSUAMB"
            "_SK0_WG32_8_1",
            Tiling(256, 128, 64, "tiles", "work_items"),
        ),
        (
            "Cijk_Alik_Bljk_BBS_BH_MT64x32x64_GSU4_WG32_8_1.kd",
            Tiling(64, 32, 64, "split_k", "work_items"),
        ),
        ("nvjet_tst_0x128_64x3_1x2_h", None),
        ("nvjet_tst_9999999x128_64x3_1x2_h", None),
        ("attn_fwd", None),
        ("", None),
    ],
)
def test_tiles_of_a_name(name: str, expected: Tiling | None) -> None:
    assert tiling_of(name) == expected
