#include "tools/support/line_chart.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace cli {
namespace {

constexpr double kWidth = 720;
constexpr double kHeight = 400;
constexpr double kLeft = 60;
constexpr double kRight = 20;
constexpr double kTop = 40;
constexpr double kBottom = 50;
constexpr std::size_t kMaxPoints = 1500;

std::string format(const char* pattern, double a, double b = 0, double c = 0, double d = 0) {
  char buffer[256];
  std::snprintf(buffer, sizeof buffer, pattern, a, b, c, d);
  return buffer;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  return out;
}

/// A round step that divides `range` into about five parts.
double tick_step(double range) {
  double rough = std::max(range, 1e-9) / 5;
  double power = std::pow(10.0, std::floor(std::log10(rough)));
  double lead = rough / power;
  return power * (lead < 1.5 ? 1 : lead < 3.5 ? 2 : lead < 7.5 ? 5 : 10);
}

/// Where values land on the picture.
struct Scale {
  double x_max;
  double y_max;
  double x(double value) const { return kLeft + value / x_max * (kWidth - kLeft - kRight); }
  double y(double value) const { return kHeight - kBottom - value / y_max * (kHeight - kTop - kBottom); }
};

std::string text_at(double x, double y, const std::string& anchor, const std::string& text) {
  return format("<text x=\"%.1f\" y=\"%.1f\"", x, y) + " text-anchor=\"" + anchor + "\">" + escaped(text) + "</text>\n";
}

std::string axes(const Scale& scale, const ChartOptions& options) {
  std::string out;
  for (double y = 0; y <= scale.y_max * 1.0001; y += tick_step(scale.y_max)) {
    out += format("<path d=\"M%.1f %.1fH%.1f\" stroke=\"#ddd\"/>\n", kLeft, scale.y(y), kWidth - kRight);
    out += text_at(kLeft - 6, scale.y(y) + 4, "end", format("%g", y));
  }
  for (double x = 0; x <= scale.x_max * 1.0001; x += tick_step(scale.x_max)) {
    out += text_at(scale.x(x), kHeight - kBottom + 18, "middle", format("%g", x));
  }
  for (std::size_t mark : options.marks) {
    out += format("<path d=\"M%.1f %.1fV%.1f\" stroke=\"#999\" stroke-dasharray=\"4 4\"/>\n",
                  scale.x(static_cast<double>(mark)), kTop, kHeight - kBottom);
  }
  out += text_at(kWidth / 2, kHeight - 12, "middle", options.x_label);
  out += text_at(kLeft, kTop - 8, "start", options.y_label);
  return out + "<text x=\"360\" y=\"22\" text-anchor=\"middle\" font-size=\"16\">" + escaped(options.title) +
         "</text>\n";
}

std::string curve(const Scale& scale, const std::vector<float>& values, const char* style) {
  std::size_t step = std::max<std::size_t>(1, values.size() / kMaxPoints);
  std::string points;
  for (std::size_t i = 0; i < values.size(); i += step) {
    double y = std::min<double>(std::isfinite(values[i]) ? values[i] : scale.y_max, scale.y_max);
    points += format("%.1f,%.1f ", scale.x(static_cast<double>(i)), scale.y(y));
  }
  return "<polyline fill=\"none\" " + std::string(style) + " points=\"" + points + "\"/>\n";
}

std::vector<float> running_mean(const std::vector<float>& values) {
  double weight = std::max(0.02, 1.0 / static_cast<double>(std::max<std::size_t>(values.size(), 1)));
  std::vector<float> means;
  double mean = values.empty() ? 0 : values.front();
  for (float value : values) {
    mean += weight * (value - mean);
    means.push_back(static_cast<float>(mean));
  }
  return means;
}

double largest_of(const std::vector<float>& values) {
  double largest = 0;
  for (float value : values) {
    if (std::isfinite(value)) largest = std::max<double>(largest, value);
  }
  return largest;
}

std::string picture(const std::string& content) {
  return format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" font-family=\"sans-serif\" "
             "font-size=\"12\">\n",
             kWidth, kHeight) +
         "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n" + content + "</svg>\n";
}

}  // namespace

std::string loss_curve_svg(const ChartOptions& options, const std::vector<float>& values) {
  const double largest = largest_of(values);
  Scale scale{std::max<double>(1, static_cast<double>(values.size())), largest > 0 ? largest * 1.05 : 1};
  return picture(axes(scale, options) + curve(scale, values, "stroke=\"#9ec5e8\" stroke-width=\"1\"") +
                 curve(scale, running_mean(values), "stroke=\"#1f5f99\" stroke-width=\"2\""));
}

std::string lines_svg(const ChartOptions& options, const std::vector<Series>& series) {
  static constexpr const char* kColours[] = {"#1f5f99", "#c0504d", "#4f8f3f", "#8064a2"};
  double largest = 0;
  std::size_t longest = 1;
  for (const Series& one : series) {
    largest = std::max(largest, largest_of(one.values));
    longest = std::max(longest, one.values.size());
  }
  const Scale scale{static_cast<double>(longest), largest > 0 ? largest * 1.05 : 1};
  std::string content = axes(scale, options);
  double y = kTop + 14;
  for (std::size_t i = 0; i < series.size(); ++i) {
    if (series[i].values.empty()) continue;
    const std::string colour = kColours[i % std::size(kColours)];
    std::vector<float> shifted = series[i].values;  // drawn from 1 on
    shifted.insert(shifted.begin(), shifted.front());
    content += curve(scale, shifted, ("stroke=\"" + colour + "\" stroke-width=\"2\"").c_str());
    content += "<g fill=\"" + colour + "\">" + text_at(kWidth - kRight - 6, y, "end", series[i].name) + "</g>\n";
    y += 16;
  }
  return picture(content);
}

}  // namespace cli
