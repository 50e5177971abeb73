#pragma once
// The style sheet of HtmlPage. Every text has a contrast of 4.5 at least to what is behind it, light and dark, that on
// the colors c0 to c7 too (tests/cli/page_test.py). Thread safety: a constant. Use: page += kPageStyle;

namespace cli::detail {

inline constexpr char kPageStyle[] = R"css(
:root{--bg:#fff;--fg:#1b1f24;--soft:#667;--line:#d8dee4;--head:#f6f8fa;--on:#fff;
--c0:#4878a8;--c1:#9f672f;--c2:#4c8149;--c3:#b05a5a;--c4:#8567aa;--c5:#747474;--c6:#347f7f;--c7:#847329}
@media (prefers-color-scheme:dark){:root{--bg:#14171a;--fg:#e2e6ea;--soft:#99a;--line:#353b42;--head:#1d2126;--on:#14171a;
--c0:#6a9fd4;--c1:#d98a3d;--c2:#76b871;--c3:#cf7777;--c4:#a98bd0;--c5:#9a9a9a;--c6:#5fbaba;--c7:#cfb84e}}
body{background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:62rem;padding:0 1rem}
h1{font-size:1.5rem;overflow-wrap:anywhere}h2{font-size:1.1rem;margin-top:2rem}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1.2rem}dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
.wide{overflow-x:auto}table{border-collapse:collapse;font:13px/1.5 ui-monospace,monospace}
th,td{text-align:left;padding:.15rem .8rem;border-bottom:1px solid var(--line);white-space:nowrap}
thead th{background:var(--head)}tbody th{font-weight:400}.r{text-align:right}
summary{cursor:pointer;font-weight:600}
svg{width:100%;height:auto;font:12px ui-monospace,monospace}svg text{fill:var(--fg)}svg .s{fill:var(--soft)}
svg .b{fill:var(--on);font-size:11px}svg .g{stroke:var(--bg);stroke-width:1}svg .a{stroke:var(--line)}
svg .o{fill:var(--head);stroke:var(--line)}svg .t{fill:var(--fg);font-size:11px;font-weight:600}
.f0{fill:var(--c0)}.f1{fill:var(--c1)}.f2{fill:var(--c2)}.f3{fill:var(--c3)}.f4{fill:var(--c4)}.f5{fill:var(--c5)}.f6{fill:var(--c6)}.f7{fill:var(--c7)}
)css";

}  // namespace cli::detail
