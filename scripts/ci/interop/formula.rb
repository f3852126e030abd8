# Installs a Homebrew formula into a temporary directory and runs its test, with stand-ins for the methods of Homebrew that it uses.
#
#   ruby scripts/ci/interop/formula.rb FORMULA    in the directory of the sources
require "pathname"
require "tmpdir"

class Formula
  # The values that the formula declares, such as its homepage.
  def self.facts = @facts ||= {}
  %i[desc homepage license head depends_on].each do |name|
    define_singleton_method(name) { |*values| facts[name] = values }
  end
  def self.test(&block) = define_method(:run_test, &block)

  attr_reader :prefix

  def initialize(prefix) = @prefix = Pathname(prefix)
  def bin = prefix/"bin"
  def man1 = prefix/"share/man/man1"
  def testpath = Pathname(Dir.pwd)
  def std_cargo_args = ["--locked", "--root=#{prefix}", "--path=."]

  def system(*command)
    Kernel.system(*command.map(&:to_s), exception: true)
  end

  def generate_completions_from_executable(*command)
    directory = prefix/"completions"
    directory.mkpath
    %w[bash zsh fish].each do |shell|
      text = IO.popen([*command.map(&:to_s), shell], &:read)
      raise "no completions of #{shell}" if text.empty? || !$?.success?

      (directory/shell).write(text)
    end
  end

  def assert_path_exists(path)
    raise "#{path} does not exist" unless path.exist?
  end
end

load ARGV.fetch(0)
name = File.basename(ARGV[0], ".rb")
formula_class = Object.const_get(name.capitalize)
%i[desc homepage license head].each do |fact|
  raise "the formula has no #{fact}" unless formula_class.facts[fact]
end
Dir.mktmpdir do |prefix|
  formula = formula_class.new(prefix)
  formula.install
  raise "no manual page is installed" unless (formula.man1/"#{name}.1").exist?

  Dir.mktmpdir { |work| Dir.chdir(work) { formula.run_test } }
end
puts "the formula installs #{name}"
