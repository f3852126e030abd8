# Installs osjitter with Homebrew, from source because it has not been released yet:
#   brew tap osjitter/osjitter https://github.com/osjitter/osjitter
#   brew install --HEAD osjitter
class Osjitter < Formula
  desc "Measure how late periodic async tasks are and what punctuality costs"
  homepage "https://github.com/osjitter/osjitter"
  license any_of: ["MIT", "Apache-2.0"]
  head "https://github.com/osjitter/osjitter.git", branch: "main"

  depends_on "rust" => :build

  def install
    system "cargo", "install", "--features", "parquet", *std_cargo_args
    system "cargo", "run", "--release", "--locked", "--package", "osjitter-manpages", "--", man1
    generate_completions_from_executable(bin/"osjitter", "completions")
  end

  test do
    system bin/"osjitter", "run", "--quiet", "--period", "2ms", "--ticks", "100", "--subject", "nanosleep",
           "--out", "run"
    assert_path_exists testpath/"run/report.json"
  end
end
